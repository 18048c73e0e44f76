"""Attributes and holders of locks: ``held.attributes``, ``LockTaken``, ``get_lock``."""

import os
import socket
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, transaction
from django.test import override_settings

from django_tasks import api
from django_tasks.api import (
    LockInTransaction,
    LockLost,
    LockTaken,
    TaskTypeError,
    TaskValueError,
    alock,
    get_lock,
    lock,
)
from django_tasks.locks import locking, rows
from django_tasks.models import Lock
from tests.payloads import refused, taken, written
from tests.worker.parts import joined

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_lock_that_nobody_has_saved_to_carries_nothing() -> None:
    with lock("report") as held:
        assert held.attributes is None


def test_attributes_go_from_one_holder_to_the_next() -> None:
    with lock("report") as held:
        held.save({"page": 1, "sum": Decimal("1.50")})
        held.save({"page": 2})
        assert held.attributes == {"page": 2}
    with lock("report") as held:
        assert (held.attributes, held.term) == ({"page": 2}, 2)
    with lock("another") as held:
        assert held.attributes is None


def test_so_they_do_in_coroutines() -> None:
    async def section(add: int) -> Any:
        async with alock("report") as held:
            await held.asave((held.attributes or 0) + add)
            return held.attributes

    assert [async_to_sync(section)(2), async_to_sync(section)(3)] == [2, 5]


def test_what_is_no_json_is_refused() -> None:
    with lock("report") as held:
        with pytest.raises(TaskTypeError, match="attributes"):
            held.save(object())
        assert held.attributes is None


@refused
def test_what_no_database_keeps_is_refused(value: Any, word: str) -> None:
    with lock("report") as held:
        with pytest.raises(TaskValueError, match=word) as caught:
            held.save(value)
        assert (caught.value.field, held.attributes) == ("attributes", None)
    assert Lock.objects.get().attributes is None


@taken
def test_what_is_taken_comes_to_the_next_holder_equal(value: Any) -> None:
    with lock("report") as held:
        held.save(value)
    with lock("report") as held:
        state = get_lock("report")
        assert state is not None
        assert written(held.attributes) == written(state.attributes) == written(value)


def test_a_holder_that_was_overtaken_writes_nothing() -> None:
    def section() -> None:
        with lock("report") as held:
            held.save("mine")
            Lock.objects.update(term=9, holder="somebody else")
            with pytest.raises(LockLost):
                held.save("late")
            assert not held.is_held
            assert held.attributes == "mine"

    with pytest.raises(LockLost):
        section()
    assert Lock.objects.get().attributes == "mine"


def test_attributes_that_are_saved_while_the_lock_is_taken_over_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    intact = rows.take

    def with_a_late_save(name: str, *arguments: Any, using: str) -> Any:
        Lock.objects.filter(name=name).update(attributes="late")
        return intact(name, *arguments, using=using)

    with lock("report"):
        pass
    monkeypatch.setattr(rows, "take", with_a_late_save)
    with lock("report") as held:
        assert held.attributes == "late"


def test_nothing_is_saved_inside_a_transaction() -> None:
    with lock("report") as held, transaction.atomic():
        with pytest.raises(LockInTransaction, match="inside a transaction on 'default'"):
            held.save(5)
        assert held.attributes is None


def test_a_lock_that_cannot_be_handed_over_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, using: str) -> Any:
        raise OperationalError("gone")

    monkeypatch.setattr(rows, "attributes_of", fail)
    with pytest.raises(OperationalError), lock("report"):
        raise AssertionError
    state = get_lock("report")
    assert state is not None
    assert not state.is_held


def test_a_refusal_is_one_though_the_database_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, using: str) -> Any:
        raise OperationalError("gone")

    with lock("report"):
        monkeypatch.setattr(rows, "state", fail)
        with pytest.raises(LockTaken), lock("report"):
            raise AssertionError


# Who holds it


def test_a_refusal_says_who_holds_the_lock_and_until_when() -> None:
    with lock("report", lease=60) as held:
        held.save({"page": 7})
        with pytest.raises(LockTaken) as caught, lock("report"):
            raise AssertionError
    taken = caught.value
    assert (taken.name, taken.term, taken.attributes) == ("report", held.term, {"page": 7})
    assert taken.holder.startswith(f"{socket.gethostname()}:{os.getpid()}:")
    assert taken.until is not None
    left = taken.until - datetime.now(timezone.utc)
    assert timedelta(seconds=50) < left < timedelta(seconds=70)
    assert f"{taken.holder}, term {held.term}, until 20" in str(taken)


def test_one_that_has_left_since_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "take", lambda *arguments, using: None)
    words = r"somebody else holds the lock 'report'$"
    with pytest.raises(LockTaken, match=words) as caught, lock("report"):
        raise AssertionError
    assert (caught.value.holder, caught.value.until) == ("", None)


def test_anybody_may_ask_who_holds_a_lock() -> None:
    assert get_lock("report") is None
    with lock("report") as held:
        held.save(5)
        state = get_lock("report")
        assert state is not None
        assert (state.is_held, state.term, state.attributes) == (True, held.term, 5)
        assert async_to_sync(api.aget_lock)("report") == state
    state = get_lock("report")
    assert state is not None
    assert (state.is_held, state.holder, state.until, state.attributes) == (False, "", None, 5)


def test_a_lease_that_has_passed_is_nobodys() -> None:
    rows.take("report", "somebody", locking.DEFAULT_LEASE, using="default")
    Lock.objects.update(until=5)
    state = get_lock("report")
    assert state is not None
    assert not state.is_held


@pytest.mark.parametrize("name", ["", " a", "x" * 101, 5])
def test_a_name_that_no_lock_can_have_is_refused(name: Any) -> None:
    with pytest.raises(TaskValueError, match="name"):
        get_lock(name)


@override_settings(DJANGO_TASKS={"WORKER_NAME": "web-3"})
def test_the_name_of_the_host_may_be_set() -> None:
    with lock("report"):
        state = get_lock("report")
    assert state is not None
    assert state.holder.startswith(f"web-3:{os.getpid()}:")
    assert joined().name.startswith(f"web-3:{os.getpid()}:")
