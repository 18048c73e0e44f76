"""``HandOver``: due tasks that become messages, through a whole run of a worker."""

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from django_tasks.api import HandlerError, HandOver, TaskTypeError, TaskValueError
from django_tasks.backoff import as_backoff
from django_tasks.handlers.base import may_retry
from django_tasks.handover import broker
from django_tasks.models import WorkerRow
from django_tasks.store import rescue
from django_tasks.store.finish import finish
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Done, Fail, Outcome, Retry
from django_tasks.worker.membership import Membership
from tests.factories import table
from tests.handover.parts import a_run, app, received
from tests.worker.parts import USING, added, ago, ahead, claimed, joined, row, runner

Handlers = Callable[..., None]


class Cancel(HandOver):
    biz_code = "cancel"
    celery_task = "shop.cancel"
    celery_app = app


class ToNobody(HandOver):
    biz_code = "cancel"


# Arguments


@pytest.mark.parametrize(
    ("biz_ext", "expected"),
    [(None, ((), {})), ('{"a": 1}', ((), {"a": 1})), ("[1, 2]", ([1, 2], {}))],
)
def test_the_payload_has_the_arguments(biz_ext: str | None, expected: Any) -> None:
    assert Cancel().arguments(a_run(biz_ext=biz_ext)) == expected


@pytest.mark.parametrize("biz_ext", ["1", '"text"', "true"])
def test_another_payload_is_refused_with_its_name(biz_ext: str) -> None:
    with pytest.raises(TaskTypeError, match="biz_ext must be an object, a list or None"):
        Cancel().arguments(a_run(biz_ext=biz_ext))


def test_arguments_may_be_made_of_the_key() -> None:
    class ByNumber(Cancel):
        def arguments(self, task: Any) -> Any:
            return [task.biz_num], {}

    ByNumber().handle(a_run())
    (message,) = received()
    assert message.payload[:2] == [["42"], {}]


# Which engine


@pytest.mark.parametrize("both", [{}, {"to": "shop.tasks.cancel", "celery_task": "shop.cancel"}])
def test_one_engine_is_named_and_no_more(both: dict[str, Any]) -> None:
    handler = type("Handler", (ToNobody,), both)()
    with pytest.raises(HandlerError, match="it needs one of to and celery_task"):
        handler.handle(a_run())


# Errors


def test_a_broker_that_is_down_for_days_is_tried_again_all_the_time() -> None:
    handler = Cancel()
    assert may_retry(handler, OperationalError("down"))
    assert handler.max_attempts is not None
    longest = max(as_backoff(handler.backoff).delay(20) for _ in range(100))
    assert longest <= 300
    assert handler.max_attempts * 150 > 7 * 86400


@pytest.mark.parametrize("error", [TaskValueError("arguments", {}, "cannot be sent"), TypeError()])
def test_arguments_that_cannot_be_sent_fail_at_once(error: Exception) -> None:
    assert not may_retry(Cancel(), error)


# Runs of a worker


def ended(claim: Claimed, membership: Membership) -> Outcome:
    """The outcome of one run, written as the poller would."""
    end = runner(membership)(claim)
    finish([end], ago(0), using=USING)
    return end.outcome


@pytest.mark.django_db(transaction=True)
def test_a_task_is_done_once_it_is_handed_over(handlers: Handlers) -> None:
    handlers(Cancel)
    membership = joined()
    added("42", "cancel", biz_ext={"number": 42})
    (claim,) = claimed(membership.worker_id, "cancel")
    assert ended(claim, membership) == Done()
    (message,) = received()
    assert message.payload[:2] == [[], {"number": 42}]
    assert row("42", "cancel") is None


@pytest.mark.django_db(transaction=True)
def test_a_task_that_was_not_handed_over_waits_and_then_has_the_same_id(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers(Cancel)
    membership, ids, send = joined(), [], broker.send

    def down(app: Celery, call: broker.BrokerCall) -> None:
        ids.append(call.task_id)
        raise OperationalError("no broker")

    monkeypatch.setattr(broker, "send", down)
    added("42", "cancel")
    (claim,) = claimed(membership.worker_id, "cancel")
    assert isinstance(ended(claim, membership), Retry)

    monkeypatch.setattr(broker, "send", send)
    table(biz_code="cancel").update(when=ago())
    (claim,) = claimed(membership.worker_id, "cancel")
    assert ended(claim, membership) == Done()
    assert [message.headers["id"] for message in received()] == ids


@pytest.mark.django_db(transaction=True)
def test_a_task_whose_worker_died_after_the_message_is_sent_again_with_the_same_id(
    handlers: Handlers,
) -> None:
    handlers(Cancel)
    first, second = joined(), joined()
    added("42", "cancel")
    (claim,) = claimed(first.worker_id, "cancel")
    runner(first)(claim)
    WorkerRow.objects.filter(pk=first.worker_id).delete()
    rescue.rescue([first.worker_id], lambda row: 5, ago(0), using=USING)
    (claim,) = claimed(second.worker_id, "cancel")
    assert ended(claim, second) == Done()
    one, other = received()
    assert one.headers["id"] == other.headers["id"]


@pytest.mark.django_db(transaction=True)
def test_a_task_added_again_while_it_runs_is_another_call(handlers: Handlers) -> None:
    handlers(Cancel)
    membership = joined()
    added("42", "cancel")
    (claim,) = claimed(membership.worker_id, "cancel")
    end = runner(membership)(claim)
    added("42", "cancel", when=ago(60))
    finish([end], ago(0), using=USING)
    (claim,) = claimed(membership.worker_id, "cancel")
    assert ended(claim, membership) == Done()
    assert len({message.headers["id"] for message in received()}) == 2


@pytest.mark.django_db(transaction=True)
def test_a_task_that_repeats_is_one_call_each_time(handlers: Handlers) -> None:
    handlers(Cancel)
    membership = joined()
    added("42", "cancel", schedule="every 1h")
    for _ in range(2):
        table(biz_code="cancel").update(when=ago())
        (claim,) = claimed(membership.worker_id, "cancel")
        ended(claim, membership)
    found = row("42", "cancel")
    assert found is not None
    assert found.when > ahead(-60)
    assert len({message.headers["id"] for message in received()}) == 2


@pytest.mark.django_db(transaction=True)
def test_a_payload_that_is_no_arguments_fails_the_task(handlers: Handlers) -> None:
    handlers(Cancel)
    membership = joined()
    added("42", "cancel", biz_ext="text")
    (claim,) = claimed(membership.worker_id, "cancel")
    assert isinstance(ended(claim, membership), Fail)
    assert received() == []
