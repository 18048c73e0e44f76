"""Rows of old may have control characters: no log line and no command shows one as it is."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_tasks import api, logs
from django_tasks.handlers.running_task import PassiveTask
from django_tasks.models import Pause, Task, TaskRun, WorkerRow
from django_tasks.values.status import Status
from django_tasks.worker.worker import Worker
from tests.commands.conftest import Call
from tests.factories import CODE, NOW, a_claim_of, a_row, a_worker
from tests.naming import named
from tests.waiting import DEADLINE
from tests.worker.parts import ago, config, handler

pytestmark = pytest.mark.django_db(transaction=True)

CONTROLS = st.sampled_from([*map(chr, (*range(1, 32), *range(127, 160), 0x2028, 0x2029))])
LETTERS = st.sampled_from("ab%'\"\\日é{")
# In the middle: a key does not begin or end with blanks, and some of them are.
TEXTS = st.lists(st.one_of(CONTROLS, LETTERS), min_size=1, max_size=20).map(
    lambda each: f"x{''.join(each)}x"
)
WORST = "x\n2026-11-25 04:00:00,000 CRITICAL \x1b[2J\x9b2J\x85\u2028\u2029\x7f\r%sx"


class OneLine(logging.Formatter):
    """Writes the message and all that is known of the task, as a project may. No traceback: what
    a handler raises is its own.
    """

    def formatException(self, ei: Any) -> str:
        return ""


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    written = io.StringIO()
    logger, stream = logging.getLogger("django_tasks"), logging.StreamHandler(written)
    stream.setFormatter(
        OneLine("%(message)s %(task)s %(biz_code)s %(biz_num)s %(queue)s %(worker)s %(database)s")
    )
    stream.addFilter(logs.TaskFilter())
    level = logger.level
    logger.addHandler(stream)
    logger.setLevel(logging.DEBUG)
    yield written
    logger.removeHandler(stream)
    logger.setLevel(level)


def harmless(text: str, lines: int | None = None) -> None:
    assert all(each.isprintable() or each == "\n" for each in text), repr(text)
    assert lines is None or text.count("\n") == lines, text


def begins_or_fails(task: Any) -> None:
    logging.getLogger("django_tasks").warning("of the project's own: %s", task)
    if task.id % 2:
        raise RuntimeError(f"no {task.biz_num}")
    task.progress(1, 2, f"half of {task.biz_num}")


def forget() -> None:
    for model in (Task, TaskRun, WorkerRow, Pause):
        model._base_manager.all().delete()


def old_rows(texts: list[str]) -> None:
    """Rows as an older version has let them be written."""
    for text in texts:
        facts: dict[str, Any] = {"queue": text, "name": text, "create_time": ago()}
        facts |= {"update_time": ago(), "when": ago()}
        a_row(text, **facts)
        a_row(f"{text}2", **facts)
        if not Task.objects.filter(biz_code=text).exists():
            a_row(text, biz_code=text, **facts)
            a_row("bad", biz_code=text, status=Status.FAILED, last_error=text, **facts)


def texts_of_commands(call: Call, text: str) -> Iterator[str]:
    for command in (
        *(("listtasks",), ("listtasks", "--failed"), ("taskstatus",), ("checktasks",)),
        *(("showtask", text, text), ("showtask", text, "bad"), ("showtask", CODE, text)),
        *(("runtask", text, text), ("runtask", "nobody", text), ("runtask", CODE, text)),
        *(("pausetasks", "--code", text), ("resumetasks", "--code", text)),
        *(("requeuetasks", "--code", text, "--yes"), ("canceltasks", "--code", text, "--dry-run")),
    ):
        for extra in ((), ("--format", "json")):
            said = call(*command, *extra)
            yield from (said, said.error, said.notes)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
@example([WORST])
def test_a_worker_and_the_commands_show_none_as_it_is(
    call: Call, handlers: Any, log: io.StringIO, texts: list[str]
) -> None:
    forget()
    if CODE not in api.get_task_handlers():
        handlers(handler(begins_or_fails, CODE, max_attempts=2, backoff=600))
    a_worker(name=f"host:1:{texts[0]}")
    old_rows(texts)
    worker = Worker(config(until_empty=True))
    worker.start()
    assert worker.join(DEADLINE)
    said = log.getvalue()
    harmless(said)
    assert said.count("of the project's own") == 2 * len(texts)
    # No line is more than one: each has the name of the database at its end, or none.
    for line in said.splitlines():
        assert line.endswith((" default", " ")), line
    for text in texts:
        for shown in texts_of_commands(call, text):
            harmless(shown)
    log.seek(0)
    log.truncate()


@pytest.mark.parametrize("text", ["x\n2x", "x\x1b[2Jx", "x\x9bx", "x\u2028x"], ids=named)
def test_what_commands_refuse_and_echo(call: Call, text: str) -> None:
    a_row(CODE, status=Status.RUNNING, claimed_by=a_worker(name=f"w{text}").pk)
    for command in (
        ("runtask", CODE, CODE),
        ("runtask", CODE, text),
        ("addtask", text, "1"),
        ("addtask", CODE, text),
        ("addtask", CODE, "1", "--queue", text),
        ("addtask", CODE, "1", "--name", text),
        ("addtask", CODE, "1", "--when", text),
        ("starttask", "--queues", f"a,{text}"),
        ("starttask", "--database", text),
    ):
        said = call(*command)
        assert said.code
        assert said.error
        for each in (said, said.error):
            harmless(each, 0)
        harmless(said.notes)
    assert Task.objects.count() == 1


def test_keys_in_texts_are_one_line() -> None:
    facts: dict[str, Any] = {"biz_code": WORST[:50], "biz_num": WORST}
    passive = PassiveTask(**facts, when=NOW, biz_ext=None, active="", since=NOW, term=1, using="")
    for each in (Task(**facts), TaskRun(**facts), passive, a_claim_of()._replace(**facts)):
        harmless(str(each), 0)
        assert "\\n" in str(each)


def test_a_key_that_says_much_in_a_line_is_as_it_is(log: io.StringIO) -> None:
    logs.unknown_code("default", "日\u3000本", "1")
    logs.unknown_code("default", "a\nb", "1")
    first, second = log.getvalue().splitlines()
    assert "of code '日\\u3000本' is due" in first
    assert " 日\u3000本 " in first
    assert "of code 'a\\nb' is due" in second
    assert " a\\nb " in second
