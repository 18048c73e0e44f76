"""A session that holds a snapshot, as a dump, a long report or a forgotten session does."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from benchmarks.address import connect, parse

# A transaction of the kind that dumps use, and its first statement, which takes the snapshot.
_SNAPSHOTS = {
    "sqlite": ("BEGIN", "SELECT COUNT(*) FROM sqlite_master"),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"),
    "mariadb": (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    ),
}


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Nothing that is deleted in the block can be cleaned up before its end."""
    with closing(connect(url)) as connection, closing(connection.cursor()) as cursor:
        for statement in _SNAPSHOTS[parse(url).vendor]:
            cursor.execute(statement)
        yield
