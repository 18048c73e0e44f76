"""The wait before a call is tried again: as its function says, by a delay or by a function."""

from collections.abc import Callable
from datetime import timedelta
from threading import current_thread
from typing import Any

import pytest
from django.tasks import TaskResultStatus
from django.tasks.exceptions import InvalidTask

from django_tasks.api import TaskOptions
from django_tasks.backend import KeyedTask, options
from django_tasks.backoff import Exponential
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.worker.worker import Worker
from tests.functions import functions
from tests.functions.conftest import BACKENDS
from tests.functions.others import declared
from tests.functions.test_enqueueing import keyed
from tests.functions.test_working import after
from tests.waiting import DEADLINE
from tests.worker.parts import USING, config

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction", "handlers")]

READY, FAILED = TaskResultStatus.READY, TaskResultStatus.FAILED

Make = Callable[..., KeyedTask]


class Judge:
    """A function that says when to try again, as other backends take it as well."""

    def __init__(self, answer: Any = 60) -> None:
        self.answer = answer
        self.asked: list[tuple[BaseException, Any]] = []
        self.threads: list[str] = []

    def __call__(self, exception: BaseException, task_result: Any) -> Any:
        self.asked.append((exception, task_result))
        self.threads.append(current_thread().name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Steady:
    """An object with ``delay()``."""

    def delay(self, attempt: int) -> float:
        return 60.0 * attempt


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a task of a function that fails, as ``@task`` makes it from Django 6.1 on."""

    def make(*, backend: str = "default", words: Any = None, **terms: Any) -> KeyedTask:
        def fail() -> None:
            raise ConnectionError("no answer")

        fail.__module__, fail.__qualname__ = functions.__name__, "plain"
        made = declared(options(**words or {})(fail), backend=backend, **terms)
        monkeypatch.setattr(functions, "plain", made)
        return made

    return make


def ahead() -> float:
    """Seconds until the only call is due."""
    seconds: float = (Task.objects.get().when - clock.now(USING)).total_seconds()
    return seconds


# A function


def test_it_is_asked_with_the_error_and_the_result_of_the_run(failing: Make) -> None:
    judge = Judge()
    result = after(failing(max_attempts=5, backoff=judge, timeout=30).enqueue())
    assert result.status == READY
    assert 50 < ahead() <= 60
    ((error, seen),) = judge.asked
    assert isinstance(error, ConnectionError)
    assert (seen.id, seen.status, seen.attempts) == (result.id, FAILED, 1)
    assert [each.exception_class for each in seen.errors] == [ConnectionError]
    assert seen.finished_at >= seen.last_attempted_at


def test_each_time_it_sees_the_errors_before(failing: Make) -> None:
    judge = Judge(0)
    after(failing(max_attempts=3, backoff=judge).enqueue(), times=3)
    assert [(len(seen.errors), seen.attempts) for _, seen in judge.asked] == [(1, 1), (2, 2)]


def test_it_may_answer_a_timedelta(failing: Make) -> None:
    after(failing(max_attempts=2, backoff=Judge(timedelta(minutes=5))).enqueue())
    assert 290 < ahead() <= 300


def test_with_none_the_call_is_not_tried_again(failing: Make) -> None:
    result = after(failing(max_attempts=5, backoff=Judge(None)).enqueue())
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 1, 1)


@pytest.mark.parametrize("answer", [ZeroDivisionError("oh"), -1, "soon", True], ids=str)
def test_one_that_fails_gives_way_to_the_default(
    answer: Any, failing: Make, caplog: pytest.LogCaptureFixture
) -> None:
    result = after(failing(max_attempts=5, backoff=Judge(answer)).enqueue())
    assert result.status == READY
    assert ahead() <= 10
    assert "The backoff of tests.functions.functions.plain/" in caplog.text


def test_it_is_not_asked_after_the_last_attempt(failing: Make) -> None:
    judge = Judge()
    assert after(failing(max_attempts=1, backoff=judge).enqueue()).status == FAILED
    assert judge.asked == []


@pytest.mark.django_db(transaction=True)
def test_it_is_asked_in_the_thread_of_the_run(failing: Make) -> None:
    judge = Judge()
    failing(max_attempts=2, backoff=judge).enqueue()
    worker = Worker(config(until_empty=True))
    worker.start()
    assert worker.join(DEADLINE)
    (name,) = judge.threads
    assert name != worker._thread.name
    assert name != current_thread().name


@pytest.mark.parametrize("place", ["@options", "BACKOFF"])
def test_it_may_stand_elsewhere_too(place: str, failing: Make, settings: Any) -> None:
    judge = Judge()
    if place == "@options":
        call = failing(words={"max_attempts": 2, "backoff": judge}).enqueue()
    else:
        own = BACKENDS["default"] | {"OPTIONS": {"MAX_ATTEMPTS": 2, "BACKOFF": judge}}
        settings.TASKS = BACKENDS | {"default": own}
        call = failing().enqueue()
    assert after(call).status == READY
    assert 50 < ahead() <= 60


def test_an_outbox_may_have_one_for_its_hand_over(failing: Make, settings: Any) -> None:
    judge = Judge()
    outbox = BACKENDS["outbox"] | {"OPTIONS": {"TO": "nobody", "BACKOFF": judge}}
    nobody = {"BACKEND": "tests.functions.others.Refusing", "QUEUES": []}
    settings.TASKS = BACKENDS | {"outbox": outbox, "nobody": nobody}
    assert after(failing(backend="outbox").enqueue()).status == READY
    assert 50 < ahead() <= 60
    assert isinstance(judge.asked[0][0], BrokenPipeError)


# What else a function may have, and what not


def test_an_object_with_a_delay_is_taken(failing: Make) -> None:
    assert after(failing(max_attempts=2, backoff=Steady()).enqueue()).status == READY
    assert 50 < ahead() <= 60


async def answer_later(exception: BaseException, task_result: Any) -> int:
    """Nobody would wait for it."""
    return 1


@pytest.mark.parametrize("backoff", [answer_later, lambda exception: 1, Judge, "soon", -1])
def test_what_is_no_backoff_is_refused(backoff: Any, failing: Make) -> None:
    for terms in ({"backoff": backoff}, {"words": {"backoff": backoff}}):
        with pytest.raises(InvalidTask, match="backoff cannot be used"):
            failing(**terms)


def test_using_refuses_what_no_row_can_hold(failing: Make) -> None:
    for backoff in (Judge(), Steady()):
        with pytest.raises(InvalidTask, match="a row can hold nothing else"):
            keyed(failing(), backoff=backoff)


def test_it_stays_with_its_function_whatever_else_a_call_says(failing: Make) -> None:
    made = failing(max_attempts=5, backoff=Judge())
    keyed(made, priority=3, max_attempts=7).enqueue()
    assert Task.objects.get().options == TaskOptions(max_attempts=7)


def test_the_backoff_of_a_call_comes_before_it(failing: Make) -> None:
    judge = Judge()
    after(keyed(failing(max_attempts=5, backoff=judge), backoff=[600]).enqueue())
    assert 590 < ahead() <= 600
    assert judge.asked == []


def test_options_come_before_it_and_using_before_both(failing: Make) -> None:
    made = failing(max_attempts=5, backoff=Judge(), words={"max_attempts": 3, "backoff": 0})
    handler = handler_for(made.biz_code)
    assert handler is not None
    assert (handler.max_attempts, handler.backoff) == (3, 0)
    made.enqueue()
    assert not Task.objects.get().options
    Task._base_manager.all()._raw_delete(USING)
    keyed(made, max_attempts=4).enqueue()
    assert Task.objects.get().options == TaskOptions(max_attempts=4)


# Another backend of ours


def test_it_goes_with_its_function_to_another_backend(failing: Make) -> None:
    judge = Judge()
    made = failing(max_attempts=5, backoff=judge)
    result = after(keyed(made, backend="other").enqueue())
    assert Task.objects.get().options == TaskOptions(max_attempts=5)
    assert result.status == READY
    assert len(judge.asked) == 1


def test_that_of_another_backend_cannot_go_with_a_call(failing: Make, settings: Any) -> None:
    other = BACKENDS["other"] | {"OPTIONS": {"BACKOFF": Judge()}}
    settings.TASKS = BACKENDS | {"other": other}
    with pytest.raises(InvalidTask, match="a row can hold nothing else"):
        keyed(failing(), backend="other")


def test_a_backend_that_says_none_has_the_usual_one(failing: Make) -> None:
    keyed(failing(backend="other"), backend="default").enqueue()
    assert Task.objects.get().options == TaskOptions(max_attempts=1, backoff=Exponential())
