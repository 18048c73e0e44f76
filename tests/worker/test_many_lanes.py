"""Claims of a worker where tasks wait in many lanes: a queue for each customer, perhaps."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError, OperationalError

from django_tasks.handlers.base import TaskHandler
from django_tasks.models import Task
from django_tasks.store import claim as store
from django_tasks.store.lanes import LANES_AT_ONCE
from django_tasks.worker import claiming
from tests.worker.conftest import Register
from tests.worker.parts import CODE, added, ahead
from tests.worker.test_claiming import Claimer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The queues of each claim, in their order."""
    found: list[list[str]] = []
    one, several = store.claim, store.claim_together

    def claim(claimer: Any, lane: Any, *args: Any, **facts: Any) -> Any:
        found.append([lane.queue])
        return one(claimer, lane, *args, **facts)

    def claim_together(claimer: Any, wanted: Any, *args: Any, **facts: Any) -> Any:
        found.append([lane.queue for lane, *_ in wanted])
        return several(claimer, wanted, *args, **facts)

    monkeypatch.setattr(store, "claim", claim)
    monkeypatch.setattr(store, "claim_together", claim_together)
    return found


def customers(count: int) -> list[str]:
    """Add a due task in a queue for each; the numbers say who comes first."""
    for number in range(count):
        added(str(number), queue=f"customer {number}", when=ahead(number - 1000))
    return [str(number) for number in range(count)]


def test_a_commit_takes_more_and_more_lanes_up_to_so_many(
    register: Register, asked: list[list[str]]
) -> None:
    register(lambda task: None)
    wanted = customers(2 * LANES_AT_ONCE + 5)
    claimer = Claimer(size=100)
    claimer.claim()
    assert sorted(claimer.keys()) == sorted(wanted)
    assert [len(queues) for queues in asked] == [1, 2, 4, 8, 16, 14]
    assert [queue for queues in asked for queue in queues] == [f"customer {n}" for n in wanted]


def test_what_somebody_holds_locked_is_stepped_over_lane_by_lane(
    register: Register, asked: list[list[str]]
) -> None:
    register(lambda task: None)
    customers(5)
    claimer = Claimer()
    claimer.claim(careful=True)
    assert len(claimer.keys()) == 5
    assert [len(queues) for queues in asked] == [1] * 5


def test_an_error_of_several_lanes_has_each_asked_by_itself(
    register: Register, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the others are claimed, and the one to blame is left alone for a while."""
    register(lambda task: None)
    customers(9)
    claim = store.claim

    def fails_for_one(claimer: Any, lane: Any, *args: Any, **facts: Any) -> Any:
        if lane.queue == "customer 4":
            raise DataError("integer out of range")
        return claim(claimer, lane, *args, **facts)

    def fails(*args: Any, **facts: Any) -> Any:
        raise DataError("integer out of range")

    unsure: list[bool] = []
    claimer = Claimer()
    monkeypatch.setattr(claimer.claiming._lane_claims, "_unsure", lambda: unsure.append(True))
    with monkeypatch.context() as patch:
        patch.setattr(store, "claim", fails_for_one)
        patch.setattr(store, "claim_together", fails)
        claimer.claim()
        assert sorted(claimer.keys()) == list("01235678")
        # Of all that failed there may be claims that nobody knows of.
        assert len(unsure) == 2
    claimer.finish()
    asked.clear()
    added("9", queue="customer 9")
    claimer.claim()
    assert asked == [["customer 9"]]


def test_an_outage_is_no_error_of_these_lanes(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **facts: Any) -> Any:
        raise OperationalError("server has gone away")

    register(lambda task: None)
    customers(3)
    monkeypatch.setattr(store, "claim_together", gone)
    claimer = Claimer()
    with pytest.raises(OperationalError):
        claimer.claim()
    assert claimer.keys() == ["0"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"max_running": 2, "handle": lambda handler, task: None},
        {"batch": 3, "handle_batch": lambda handler, tasks: None},
    ],
    ids=["limited", "in batches"],
)
def test_a_code_with_a_gate_or_batches_goes_by_itself_in_its_turn(
    register: Register,
    handlers: Callable[..., None],
    asked: list[list[str]],
    attributes: dict[str, Any],
) -> None:
    register(lambda task: None)
    handlers(type("Special", (TaskHandler,), {"biz_code": "special", **attributes}))
    customers(3)
    added("special", "special", queue="special", when=ahead(-500))
    for number in range(3, 6):
        added(str(number), queue=f"customer {number}", when=ahead(-400 + number))
    claimer = Claimer(size=20)
    claimer.claim()
    assert sorted(claimer.keys()) == ["0", "1", "2", "3", "4", "5", "special"]
    assert asked == [
        ["customer 0"],
        ["customer 1", "customer 2"],
        ["special"],
        ["customer 3", "customer 4", "customer 5"],
    ]


def test_a_limit_that_is_reached_is_no_reason_to_change_the_order(
    register: Register, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was quicker there."""
    register(lambda task: None)
    register(lambda task: None, "limited", max_running=1)
    added("runs", "limited")
    first = Claimer()
    first.claim()
    monkeypatch.setattr(claiming, "random", lambda: pytest.fail("The order was changed."))
    customers(1)
    added("waits", "limited", queue="limited", when=ahead(-990))
    for number in range(1, 5):
        added(str(number), queue=f"customer {number}", when=ahead(-900 + number))
    claimer = Claimer(first.membership)
    claimer.claim()
    assert claimer.keys() == list("01234")


def test_no_more_is_claimed_than_fits_or_than_max_tasks_say(register: Register) -> None:
    register(lambda task: None)
    customers(30)
    for number in range(30):
        added(f"second {number}", queue=f"customer {number}")
    assert [len(keys_of(room, None)) for room in (3, 10)] == [3, 10]
    assert len(keys_of(50, 9)) == 9
    assert Task.objects.filter(claimed_by=None, biz_code=CODE).count() == 60 - 3 - 10 - 9


def keys_of(room: int, max_tasks: int | None) -> list[str]:
    claimer = Claimer(size=room, max_tasks=max_tasks)
    claimer.claim()
    claimer.claim()
    return claimer.keys()
