"""Each statement of the package has been asked of the server that these tests run on.

The source says where there are statements, a walk through all parts asks them, and a watch notes
what was answered. A new statement needs a station of the walk.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import Error, transaction
from django.test import Client

from django_tasks.models import EndedPause, Gate, Pause, TaskMinute, TaskRun, WorkerRow
from django_tasks.store import clock
from django_tasks.store.dialects import dialect_of
from tests.factories import NOW, table
from tests.importers.old import Old
from tests.statements import doors, walk
from tests.statements.elsewhere import DJANGO_HAS_TASKS, THEIRS_ARE_HERE, only
from tests.statements.places import places, places_in
from tests.statements.watch import Watch
from tests.vendor import MARIADB, MYSQL_FAMILY, is_on

pytestmark = pytest.mark.django_db(transaction=True)


def walk_on_all_floors(
    handlers: Callable[..., None], boss: Client, old: Old, path: Path, patch: pytest.MonkeyPatch
) -> None:
    walk.store()
    walk.races()
    if is_on(*MYSQL_FAMILY):
        with patch.context() as some:
            walk.old_server(some)
    if is_on(MARIADB):
        with patch.context() as some:
            walk.node_of_a_cluster(some)
    walk.long_history(patch)
    walk.sessions_of_ours()
    with patch.context() as some:
        walk.worker(handlers, some)
    walk.schedules_of_handlers(handlers)
    if DJANGO_HAS_TASKS:
        walk.calls(patch)
    forget_all()
    doors.checks()
    with clock.replaced(lambda using: NOW):
        doors.crowd()
        doors.pages(boss, patch)
        doors.changes(boss, patch)
        doors.commands(patch)
        walk.clients()
    walk.adoption(old, patch)
    if THEIRS_ARE_HERE:
        walk.imports(path)


def forget_all() -> None:
    table().delete()
    for model in (WorkerRow, TaskRun, TaskMinute, Pause, EndedPause, Gate):
        model._base_manager.all().delete()


def test_each_statement_was_asked_of_this_server_or_is_listed_with_a_reason(
    handlers: Callable[..., None],
    boss: Client,
    old: Old,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Watch()() as watch:
        walk_on_all_floors(handlers, boss, old, tmp_path / "jobs", monkeypatch)
    found, elsewhere = places(), [each for each in only() if not each.here]
    missed = [place for place in found if not watch.has_seen(place)]
    unasked = [place for place in missed if not any(each.has(place) for each in elsewhere)]
    assert not unasked, "\n".join(f"No station of the walk asks {place}" for place in unasked)
    for each in elsewhere:
        for name in each.names:
            assert any(map(each._replace(names=(name,)).has, missed)), f"{name} is asked, or gone"


def test_a_statement_that_the_server_refuses_counts_as_never_asked() -> None:
    source = 'GOOD, BAD = "SELECT 1 FROM t_task", "SELECT nothing FROM t_task"'
    good, bad = places_in("some.py", source)
    dialect = dialect_of("default")
    with Watch()() as watch:
        dialect.fetch("SELECT 1 FROM t_task")
        with pytest.raises(Error), transaction.atomic():
            dialect.fetch("SELECT nothing FROM t_task")
    assert (watch.has_seen(good), watch.has_seen(bad)) == (True, False)


def test_a_call_that_asks_something_is_a_place_whatever_its_text() -> None:
    source = """
def ask(dialect, rows, text):
    dialect.fetch(text)
    dialect.execute("VACUUM")
    return rows.filter(Q(a=1)).order_by("a").first()
"""
    assert [place.kind for place in places_in("some.py", source)] == [
        *("send", "send", "query", "condition"),
    ]
