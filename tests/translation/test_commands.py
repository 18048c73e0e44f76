"""The words of the commands: their output, their help, and JSON that stays as it is."""

import json
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from django_tasks.management.commands import starttask
from django_tasks.worker.config import worker_config
from tests.translation.pseudo import CLOSE, OPEN
from tests.translation.test_marked import scene, unmarked  # noqa: F401 - a fixture

NAMES = sorted(name for name, app in get_commands().items() if app == "django_tasks")
# Each of them says something, or refuses something.
LINES = """
taskstatus
taskstatus --check
taskstatus --max-late 1
taskstatus --check --max-failed -1
listtasks
listtasks --late
listtasks --limit 0
listtasks --worker zznone
listtasks --since zz
listtasks --code zzcode --status failed
showtask zzcode 1
showtask zzcode zznone
showtask zzcode 1 --runs -1
canceltasks
canceltasks --all
canceltasks --all --code zzcode
canceltasks --failed --dry-run
canceltasks --failed
requeuetasks --failed
movetasks --code zzcode --to 2h
movetasks --code zzcode --to zz
movetasks --code zzcode --by 10
movetasks --code zzcode --by 1mo
pausetasks --code zzcode
pausetasks --code zzcode --dry-run
pausetasks --code zzcode --progress
resumetasks --code zzcode
resumetasks --code zzcode --each
prunetasks
prunetasks --history 1d
prunetasks --failed 1d --dry-run
prunetasks --failed 900000d
addtask zzcode zz
addtask zzcode 1
addtask zzcode zz --data {
addtask zzcode zz --schedule zz
addtask zzcode zz --database zz
runtask zzcode zznone
runtask zzcode 0
checktasks
importtasks celery-beat
importtasks apscheduler
importtasks apscheduler --url sqlite:////zz
adopttasks
adopttasks --dry-run
starttask --codes zznone
starttask --database zz
starttask
""".strip().splitlines()


def told(*words: str) -> str:
    """All that a command writes, and what it refuses."""
    out, refusal = StringIO(), ""
    try:
        call_command(*words, stdout=out, stderr=out, no_color=True)
    except CommandError as error:
        refusal = str(error)
    return out.getvalue() + refusal


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("line", LINES)
def test_output(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # no cell is cut, with its bracket
    text = told(*line.split())
    assert OPEN in text
    assert unmarked(text) == set()


@pytest.mark.each_database
@pytest.mark.usefixtures("bracketed")
@pytest.mark.parametrize("queues", [(), ("zz",)])
def test_the_introduction_of_a_worker(queues: tuple[str, ...]) -> None:
    config = worker_config("default", queues=queues)
    vendor = connections["default"].vendor
    text = starttask._introduction([config], 2).replace(vendor, "")
    assert unmarked(text) == set()


@pytest.mark.usefixtures("bracketed")
@pytest.mark.parametrize("name", NAMES)
def test_help(name: str) -> None:
    parser = load_command_class("django_tasks", name).create_parser("manage.py", name)
    known = {each.dest for each in BaseCommand().create_parser("manage.py", name)._actions}
    ours = [each.help for each in parser._actions if each.dest not in known]
    for text in (parser.description, *ours):
        assert text is None or (text[0], text[-1]) == (OPEN, CLOSE)
    assert OPEN in parser.format_help()


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    "line",
    [
        "taskstatus",
        "taskstatus --check",
        "listtasks",
        "showtask zzcode 1",
        "checktasks",
        "canceltasks --failed",
    ],
)
def test_json_is_in_one_language(line: str, settings: Any) -> None:
    out = StringIO()
    with suppress(CommandError):  # something is wrong in the scene
        call_command(*line.split(), "--format", "json", stdout=out)
    assert json.loads(out.getvalue())
    assert OPEN not in out.getvalue()
