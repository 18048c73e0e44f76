"""SQLite as Django knows it, but for the driver: sessions of the simulated database."""

from typing import Any

from django.apps import apps
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from tests.simulated_cluster import stage
from tests.simulated_cluster.database import Cursor, Session


class DatabaseWrapper(SQLiteWrapper):
    """A connection whose statements are steps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if apps.models_ready:  # the models ask for a connection while they are made
            from tests.simulated_cluster.manners import keep_manners

            keep_manners(self)

    def get_new_connection(self, conn_params: Any) -> Session:
        return Session(stage.database)

    def create_cursor(self, name: str | None = None) -> Cursor:
        session: Session = self.connection
        return session.cursor()

    def close(self) -> None:
        # Past SQLite's own, which never closes a database in memory.
        super(SQLiteWrapper, self).close()

    def is_usable(self) -> bool:
        session: Session | None = self.connection
        return session is not None and not session.is_lost

    def is_in_memory_db(self) -> bool:
        return True

    # Django puts the number of the real thread into the names of savepoints, which differs from
    # process to process.

    def _savepoint(self, sid: str) -> None:
        _parent(self)._savepoint(_plain(sid))

    def _savepoint_commit(self, sid: str) -> None:
        _parent(self)._savepoint_commit(_plain(sid))

    def _savepoint_rollback(self, sid: str) -> None:
        _parent(self)._savepoint_rollback(_plain(sid))


def _parent(wrapper: DatabaseWrapper) -> Any:
    """Django's own methods, of which its types do not know."""
    return super(DatabaseWrapper, wrapper)


def _plain(sid: str) -> str:
    return "s_" + sid.partition("_")[2]
