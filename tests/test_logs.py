"""Log lines: their way, their words, and how many."""

import io
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from time import time
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks import logs, signals
from django_tasks.logs import lines, runs, worker
from tests.waiting import DEADLINE

NOW = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)


def run(biz_code: str = "job", biz_num: object = 1) -> Any:
    """As much of a run as a line reads."""
    return Run(
        id=7, biz_code=biz_code, biz_num=str(biz_num), attempt=1, lateness=0.002, using="default"
    )


class Run(SimpleNamespace):
    def __str__(self) -> str:
        return f"{self.biz_code}/{self.biz_num}"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines so far, from DEBUG on."""
    caplog.set_level(logging.DEBUG, "django_tasks")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """No success has been told, and a monotonic clock that the test sets."""
    ticks = [1000.0]
    monkeypatch.setattr(runs, "ticks", lambda: ticks[0])
    monkeypatch.setattr(runs, "_successes", runs.Successes())
    yield ticks
    logs.send_through(None)


# The way of a line


def test_a_thread_that_must_not_wait_has_its_lines_written_by_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "django_tasks")
    posted: list[Callable[[], None]] = []

    def poll() -> None:
        logs.send_through(posted.append)
        try:
            raise ValueError("boom")
        except ValueError:
            logs.poller_failed("default")
        logs.paused("default", "mail", "")

    before = time()
    poller = Thread(target=poll, name="the poller")
    poller.start()
    poller.join(DEADLINE)
    after = time()
    assert caplog.records == []
    for write in posted:
        write()
    failed, paused = caplog.records
    assert failed.getMessage() == "A cycle of the poller on default failed; it goes on"
    assert failed.exc_info is not None
    assert str(failed.exc_info[1]) == "boom"
    assert failed.exc_info[2] is not None
    assert paused.getMessage() == "Paused on default: every code in queue 'mail'"
    for record in (failed, paused):
        assert (record.threadName, record.thread) == ("the poller", poller.ident)
        assert before <= record.created <= after
        assert record.name == "django_tasks"
    assert (failed.module, failed.funcName) == ("threads", "poller_failed")
    assert (paused.module, paused.funcName) == ("worker", "paused")


def test_a_line_keeps_its_moment_however_late_it_is_written(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[Callable[[], None]] = []
    logs.send_through(posted.append)
    monkeypatch.setattr(lines, "time", lambda: 1_000_000_000.25)
    logs.second_signal([])
    (write,) = posted
    write()
    (record,) = caplog.records
    assert (record.created, record.msecs) == (1_000_000_000.25, 250.0)
    assert logging.Formatter("%(asctime)s").format(record).endswith(",250")
    assert record.relativeCreated < 0  # long before this process began


def test_extra_facts_go_with_the_line(caplog: pytest.LogCaptureFixture) -> None:
    posted: list[Callable[[], None]] = []
    logs.send_through(posted.append)
    runs._retried(task=run(), seconds=0.5, when=NOW, exception=OSError("no"))
    posted[0]()
    (record,) = caplog.records
    assert (record.biz_code, record.duration) == ("job", 0.5)  # type: ignore[attr-defined]


class Nameless:
    def __str__(self) -> str:
        raise RuntimeError("I do not say")


class Unprintable(SyntaxError):
    """A template's error, with an object in the place of the file's name."""

    def __init__(self) -> None:
        place: Any = (Nameless(), 3, 7, "{% if %}")
        super().__init__("if", place)


class CausedByOne(Exception):
    pass


@pytest.mark.parametrize("kind", [Unprintable, CausedByOne], ids=lambda kind: kind.__name__)
def test_an_exception_that_cannot_be_formatted_leaves_its_line_and_its_name(
    kind: type[Exception],
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logs.logger.addHandler(handler)
    try:
        raise kind from Unprintable()
    except kind as error:
        runs._failed(task=run(), seconds=0.5, exception=error)
    finally:
        logs.logger.removeHandler(handler)
    text = stream.getvalue()
    assert text.startswith("job/1 FAILED for good")
    assert f"{kind.__name__} (its traceback cannot be formatted)" in text


class Raising(logging.Filter):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def filter(self, record: logging.LogRecord) -> bool:
        raise self.error


@pytest.fixture
def raising() -> Iterator[Callable[[BaseException], None]]:
    """Have a filter of the project's raise at each line."""
    before = lines.logger.filters[:]
    yield lambda error: lines.logger.addFilter(Raising(error))
    lines.logger.filters[:] = before


def test_a_filter_that_raises_is_shown_and_changes_nothing(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(KeyError("a field that this line does not have"))
    logs.poller_died("default")
    assert "a field that this line does not have" in capsys.readouterr().err


def test_a_factory_of_records_that_raises_changes_nothing_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("no such record")

    monkeypatch.setattr(lines.logger, "makeRecord", make)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logs.poller_died("default")
    assert capsys.readouterr().err == ""


def test_a_filter_may_still_end_its_process(raising: Callable[[BaseException], None]) -> None:
    raising(SystemExit(3))
    with pytest.raises(SystemExit):
        logs.poller_died("default")


def test_what_nobody_reads_is_not_posted() -> None:
    posted: list[Callable[[], None]] = []
    logs.send_through(posted.append)
    logs.logger.setLevel(logging.ERROR)
    try:
        logs.second_signal([])
    finally:
        logs.logger.setLevel(logging.NOTSET)
    assert posted == []


def test_the_outlet_is_of_one_thread_alone(said: Callable[[], list[str]]) -> None:
    logs.send_through(lambda write: None)
    other = Thread(target=logs.supervisor_died)
    other.start()
    other.join(DEADLINE)
    logs.supervisor_died()
    assert said() == ["The supervisor is gone: stopping"]


def test_filters_and_formats_of_the_project_see_an_ordinary_record() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s %(message)s"))
    handler.addFilter(lambda record: "job" in record.getMessage())
    logs.logger.addHandler(handler)
    try:
        logs.supervisor_died()
        runs._failed(task=run(), error="it died")
    finally:
        logs.logger.removeHandler(handler)
    assert stream.getvalue() == "ERROR _failed job/1 FAILED: it died\n"


def test_every_sentence_goes_the_one_way() -> None:
    sources = [file.read_text() for file in Path(logs.__file__).parent.glob("*.py")]
    assert len(sources) > 1
    for method in ("debug", "info", "warning", "error", "exception", "critical", "log"):
        assert not any(f"logger.{method}(" in source for source in sources)


def test_a_receiver_that_ends_the_thread_is_said(said: Callable[[], list[str]]) -> None:
    def receive(**_: Any) -> None:
        raise SystemExit(3)

    signals.task_lost.connect(receive)
    try:
        signals.tell(signals.task_lost, None, task=run(), using="default")
    finally:
        signals.task_lost.disconnect(receive)
    assert said()[-1] == "A receiver of a signal failed"


# Words


def keys(count: int) -> list[str]:
    return [f"job/{number}" for number in range(count)]


FACTS: dict[str, Any] = {"worker_id": 7, "using": "default"}
LINES = [
    (
        lambda: worker._rescued(count=1, tasks=keys(1), **FACTS),
        "Rescued 1 task of worker 7 on default, which is dead: job/0",
    ),
    (
        lambda: worker._rescued(count=2, tasks=keys(2), **FACTS),
        "Rescued 2 tasks of worker 7 on default, which is dead: job/0, job/1",
    ),
    (
        lambda: worker._rescued(count=2, **FACTS),
        "Rescued 2 tasks of worker 7 on default, which is dead",
    ),
    (
        lambda: worker._rescued(count=4000, tasks=keys(20), **FACTS),
        f"Rescued 4000 tasks of worker 7 on default, which is dead: {', '.join(keys(20))}"
        " and 3980 more",
    ),
    (
        lambda: worker._rescued(count=21, tasks=keys(21), **FACTS),
        f"Rescued 21 tasks of worker 7 on default, which is dead: {', '.join(keys(20))} and 1 more",
    ),
    (
        lambda: logs.stopping("default", keys(1), 30.0),
        "Stopping on default: 1 task still runs and has 30 s to end: job/0",
    ),
    (
        lambda: logs.stopping("default", keys(2), 0.5),
        "Stopping on default: 2 tasks still run and have 0.5 s to end: job/0, job/1",
    ),
    (
        lambda: logs.abandoned("default", keys(1)),
        "Stopped on default while 1 task still ran; it will be run again: job/0",
    ),
    (
        lambda: logs.abandoned("default", keys(2)),
        "Stopped on default while 2 tasks still ran; they will be run again: job/0, job/1",
    ),
    (
        lambda: logs.unknown_code("default", "x", "1"),
        "1 task of code 'x' is due on default and no handler is known for it: it waits",
    ),
    (
        lambda: logs.unknown_code("default", "x", "more than 1000"),
        "more than 1000 tasks of code 'x' are due on default and no handler is known for it:"
        " they wait",
    ),
    (lambda: logs.total("default", 1, 59.6), "Altogether on default: 1 run in 60 s"),
    (lambda: logs.total("default", 0, 59.6), "Altogether on default: 0 runs in 60 s"),
    (
        lambda: logs.child_ended(1, 99, -9, 0.5),
        "Process 1 (pid 99) ended with code -9 (killed; was there not enough memory?);"
        " starting another in 0.5 s",
    ),
    (
        lambda: logs.child_ended(2, 99, 1, 0.0),
        "Process 2 (pid 99) ended with code 1; starting another",
    ),
    (
        lambda: logs.second_signal(keys(2)),
        "Second signal: ending at once; what still runs will be rescued: job/0, job/1",
    ),
    (lambda: logs.second_signal([]), "Second signal: ending at once"),
]


@pytest.mark.parametrize(("say", "sentence"), LINES, ids=[line[1][:40] for line in LINES])
def test_numbers_and_nouns_agree_and_tasks_are_named(
    say: Callable[[], None], sentence: str, said: Callable[[], list[str]]
) -> None:
    say()
    assert said() == [sentence]


# How much


def test_the_first_successes_of_each_code_and_minute_can_be_seen(
    caplog: pytest.LogCaptureFixture, ticks: list[float]
) -> None:
    caplog.set_level(logging.INFO, "django_tasks")
    for _ in range(2):
        caplog.clear()
        for number in range(1000):
            logs.succeeded(run("one", number), 0.001)
        logs.rescheduled(run("two", 1), 0.001, NOW + timedelta(hours=1))
        lines = [record.getMessage() for record in caplog.records]
        facts = "(attempt 1, took 1.0 ms, 2.0 ms late)"
        assert lines[:3] == [
            f"one/0 done {facts}",
            f"one/1 done {facts}",
            f"one/2 done {facts}; further ones of this code and minute are counted",
        ]
        assert len(lines) == 4
        assert lines[3].startswith("two/1 done, again at ")
        assert lines[3].endswith(facts)
        ticks[0] += runs.SUCCESSES_SECONDS


def test_of_many_codes_not_all_successes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "django_tasks")
    for number in range(500):
        logs.succeeded(run(f"code {number}"), 0.001)
    assert len(caplog.records) == runs.MOST_SUCCESSES


def test_a_clock_that_went_back_holds_nothing_up(
    caplog: pytest.LogCaptureFixture, ticks: list[float]
) -> None:
    caplog.set_level(logging.INFO, "django_tasks")
    for _ in range(10):
        logs.succeeded(run(), 0.001)
    ticks[0] -= 1_000_000
    logs.succeeded(run(), 0.001)
    assert len(caplog.records) == runs.EACH_SUCCESSES + 1


def test_at_debug_every_run_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "django_tasks")
    for number in range(10):
        logs.succeeded(run(biz_num=number), 0.001)
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.INFO] * 3 + [logging.DEBUG] * 7


def test_where_nobody_listens_a_success_costs_one_question(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "django_tasks")
    asked: list[int] = []

    def is_enabled_for(level: int) -> bool:
        asked.append(level)
        return level >= logging.WARNING

    monkeypatch.setattr(logs.logger, "isEnabledFor", is_enabled_for)
    logs.succeeded(object(), 0.001)  # type: ignore[arg-type]  # it is not even looked at
    assert asked == [logging.INFO]


@pytest.mark.parametrize(
    "tell",
    [
        lambda error: logs.schedule_over("job", error, "default"),
        lambda error: logs.died_after_its_end(run(), error),
        lambda error: logs.not_isolated(run(), error),
    ],
)
def test_an_error_inside_a_line_has_its_secrets_masked(
    said: Callable[[], list[str]], tell: Callable[[Exception], None]
) -> None:
    tell(ValueError("no answer from https://shop:s3cret@feed.example"))
    (line,) = said()
    assert "feed.example" in line
    assert "s3cret" not in line
