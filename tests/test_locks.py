"""Promises of the docstrings of ``lock`` and ``alock``."""

import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection, transaction

from django_tasks.api import (
    LockInTransaction,
    LockLost,
    LockTaken,
    TaskException,
    TaskTypeError,
    TaskValueError,
    UnknownDatabase,
    alock,
    lock,
)
from django_tasks.locks import held, locking, rows
from django_tasks.models import Lock
from tests.integration.tasks import needs_a_server
from tests.waiting import DEADLINE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

OVER = locking.DEFAULT_LEASE * rows.SLEWING + 0.1


def row(name="report"):
    return Lock.objects.get(name=name)


def take(name="report", **wishes):
    """Take a lock and keep it, as somebody who dies with it."""
    hold = rows.take(name, "somebody else", locking.DEFAULT_LEASE, using="default", **wishes)
    assert hold is not None
    return hold


def taken_by_somebody_else():
    """Taken, and no clock is asked: as after a jump of the database's clock."""
    Lock.objects.update(term=row().term + 1, holder="somebody else")


@contextmanager
def lost_lock(**wishes):
    """A section that hears at its end that its lock was lost."""
    with (
        pytest.raises(LockLost, match="was lost before its section"),
        lock("report", **wishes) as h,
    ):
        yield h


@pytest.fixture
def time(world, monkeypatch):
    """``world`` for locks too: the host's clock, and pauses that push it forward."""
    for module in (held, locking):
        monkeypatch.setattr(module, "ticks", world)

    def pause(seconds):
        world.ahead += seconds

    monkeypatch.setattr(locking, "pause", pause)
    return world


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [each for each in threading.enumerate() if "django_tasks-lock" in each.name]


# One at a time


def test_a_lock_is_held_for_the_time_of_the_with():
    with lock("report") as held:
        assert (held.name, held.term, held.is_held) == ("report", 1, True)
        held.check()
        assert row().holder
    assert (row().holder, row().until) == ("", 0)
    assert not held.is_held
    with pytest.raises(LockLost):
        held.check()


def test_what_somebody_holds_is_refused_in_the_same_thread_too():
    with lock("report"):
        with (
            pytest.raises(LockTaken, match="somebody else holds the lock 'report'"),
            lock("report"),
        ):
            pass
        with pytest.raises(TaskException), lock("report", wait=0):
            pass


def test_different_locks_are_held_one_inside_the_other():
    with lock("report") as outer, lock("invoice") as inner:
        assert outer.is_held
        assert inner.is_held
    assert row("report").holder == row("invoice").holder == ""


def test_a_section_that_raises_frees_the_lock_and_raises():
    with pytest.raises(ZeroDivisionError), lock("report"):
        raise ZeroDivisionError
    with lock("report") as held:
        assert held.term == 2


def test_sections_of_many_threads_never_overlap_and_terms_rise_by_one(monkeypatch):
    monkeypatch.setattr(locking, "LONGEST_PAUSE", 0.02)
    inside, terms = [], []

    def work():
        try:
            for _ in range(6):
                with lock("report", wait=DEADLINE) as held:
                    inside.append(held.term)
                    assert len(inside) == 1
                    terms.append(held.term)
                    held.check()
                    inside.remove(held.term)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work) for _ in range(6)]:
            future.result(2 * DEADLINE)
    assert terms == list(range(1, 37))


# Waiting


def test_whoever_waits_has_the_lock_when_it_is_freed(elsewhere):
    waiting = threading.Event()

    def wait():
        waiting.set()
        with lock("report", wait=timedelta(seconds=DEADLINE)) as held:
            return held.term

    with lock("report"):
        answer = elsewhere(wait)
        assert waiting.wait(DEADLINE)
    assert answer.result(DEADLINE) == 2


def test_whoever_waits_in_vain_is_told_so_when_the_time_is_over(time):
    take()
    begin = time()
    with pytest.raises(LockTaken, match="for 5 s"), lock("report", wait=5):
        pass
    assert 5 <= time() - begin < 6


def test_whoever_waits_takes_over_when_the_lease_of_a_dead_holder_has_passed(time):
    take()
    begin = time()
    with lock("report", wait=60) as held:
        assert held.term == 2
    assert locking.DEFAULT_LEASE < time() - begin < OVER + 2 * locking.LONGEST_PAUSE


# Losing it


def test_a_holder_stops_believing_before_anybody_else_can_take_it(time, queries, elsewhere):
    def others_can_take_it():
        return elsewhere(rows.take, "report", "other", 30.0, using="default").result(DEADLINE)

    # Of a day, so that others must wait for a minute longer, whatever the machine does meanwhile.
    lease = locking.LEASES[1]
    with lost_lock(lease=lease) as held:
        time.ahead = lease - 60
        assert held.is_held
        time.ahead = lease
        with queries() as sent:
            assert not held.is_held
        assert not sent.captured_queries
        assert others_can_take_it() is None
        with pytest.raises(LockLost, match="is not held any more"):
            held.check()
        time.ahead = lease * rows.SLEWING + 0.1
        assert others_can_take_it()
    assert (row().term, row().holder) == (2, "other")


def test_what_was_lost_once_stays_lost(time):
    with lost_lock() as held:
        time.ahead = locking.DEFAULT_LEASE
        assert not held.is_held
        time.ahead = 0.0
        assert not held.is_held


def test_an_error_of_a_section_that_lost_its_lock_is_not_hidden(time):
    @lock("report")
    def section():
        time.ahead = OVER
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        section()


def test_a_renewal_tells_the_holder_that_somebody_else_has_the_lock(caplog):
    with lost_lock(lease=1) as held:
        taken_by_somebody_else()
        eventually(lambda: not held.is_held, "the holder knows it")
        eventually(lambda: "Lock 'report' (term 1) was lost" in caplog.text, "the log says it")
    assert (row().term, row().holder) == (2, "somebody else")


def test_a_section_that_finds_the_lock_gone_when_it_frees_it_is_told():
    with lost_lock():
        taken_by_somebody_else()


# Keeping it


def test_a_section_may_take_longer_than_its_lease():
    with lock("report", lease=2) as held:
        first = row().until
        eventually(lambda: row().until > first + 2_000_000, "a lease after the first one")
        assert held.is_held


def test_errors_of_the_database_are_survived_until_the_lease_has_passed(monkeypatch, caplog):
    renew, failures = rows.renew, iter(range(2))

    def failing(*args, **kwargs):
        if next(failures, None) is not None:
            raise OperationalError("gone away")
        return renew(*args, **kwargs)

    monkeypatch.setattr(rows, "renew", failing)
    with lock("report", lease=2) as held:
        first = row().until
        eventually(lambda: row().until > first, "a renewal after two that failed")
        assert held.is_held
    assert caplog.text.count("could not be renewed (OperationalError: gone away)") == 2


def test_an_outage_that_outlasts_the_lease_loses_the_lock(monkeypatch, caplog):
    def failing(*args, **kwargs):
        raise OperationalError("gone away")

    monkeypatch.setattr(rows, "renew", failing)
    with lost_lock(lease=1) as held:
        eventually(lambda: not held.is_held, "it gives up")
        eventually(lambda: "was lost" in caplog.text, "the log says it")


# Leaving it


def test_a_lock_that_cannot_be_freed_is_left_to_its_lease(time, monkeypatch, caplog):
    def failing(*args, **kwargs):
        raise OperationalError("gone away")

    with lock("report"):
        monkeypatch.setattr(rows, "free", failing)
    assert "Lock 'report' could not be freed (OperationalError: gone away)" in caplog.text
    with pytest.raises(LockTaken), lock("report"):
        pass


def lose_an_answer(monkeypatch, name):
    """The next call of a function of the store is carried out, and its answer does not come."""
    function, failures = getattr(rows, name), iter(range(1))

    def failing_once(*args, **kwargs):
        done = function(*args, **kwargs)
        if next(failures, None) is not None:
            raise OperationalError("gone away")
        return done

    monkeypatch.setattr(rows, name, failing_once)


def test_a_free_whose_answer_was_lost_is_repeated_and_counts(monkeypatch):
    lose_an_answer(monkeypatch, "free")
    with lock("report"):
        pass
    assert row().holder == ""


def test_a_take_whose_answer_was_lost_holds_the_lock_for_one_lease(time, monkeypatch):
    lose_an_answer(monkeypatch, "take")
    with pytest.raises(OperationalError), lock("report"):
        pass
    with pytest.raises(LockTaken), lock("report"):
        pass
    time.ahead = OVER
    with lock("report") as held:
        assert held.term == 2


@needs_a_server
def test_a_connection_that_broke_in_the_section_does_not_keep_the_lock(elsewhere):
    """Nor does the next one that is broken keep the lock from being taken again."""
    with lock("report"):
        killed_by_the_server(elsewhere)
    assert row().holder == ""
    killed_by_the_server(elsewhere)
    with pytest.raises(OperationalError), lock("report"):
        pass
    with lock("report") as held:
        assert held.term == 2


def killed_by_the_server(elsewhere):
    """Our connection."""
    mysql = connection.vendor == "mysql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT connection_id()" if mysql else "SELECT pg_backend_pid()")
        number = cursor.fetchone()

    def kill():
        with connection.cursor() as cursor:
            cursor.execute("KILL %s" if mysql else "SELECT pg_terminate_backend(%s)", number)

    elsewhere(kill).result(DEADLINE)


# What is refused


@contextmanager
def manual_transaction():
    connection.set_autocommit(False)
    try:
        yield
    finally:
        connection.rollback()
        connection.set_autocommit(True)


@pytest.mark.parametrize("begin", [transaction.atomic, manual_transaction])
def test_a_lock_inside_a_transaction_is_refused(begin):
    with begin(), pytest.raises(LockInTransaction, match="take it first"), lock("report"):
        pass
    assert not Lock.objects.exists()


def test_transactions_inside_a_lock_are_what_it_is_for():
    with lock("report"), transaction.atomic():
        assert row().holder


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", TaskValueError),
        (" report", TaskValueError),
        ("r" * 101, TaskValueError),
        ("re\0port", TaskValueError),
        (None, TaskTypeError),
        (7, TaskTypeError),
    ],
)
def test_a_bad_name_is_refused(name, error):
    with pytest.raises(error, match=r"^name "), lock(name):
        pass


@pytest.mark.parametrize("field", ["lease", "wait"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, TaskValueError),
        (float("nan"), TaskValueError),
        (float("inf"), TaskValueError),
        (10**400, TaskValueError),
        (timedelta(days=4000), TaskValueError),
        ("30", TaskTypeError),
        (True, TaskTypeError),
    ],
)
def test_a_bad_lease_or_wait_is_refused(field, value, error):
    with pytest.raises(error, match=f"^{field} must be "), lock("report", **{field: value}):
        pass
    assert not Lock.objects.exists()


@pytest.mark.parametrize("lease", [0, 0.99, 86_401])
def test_a_lease_that_is_too_short_or_too_long_is_refused(lease):
    with pytest.raises(TaskValueError, match="from 1 to 86400"), lock("report", lease=lease):
        pass


def test_an_unknown_database_is_refused():
    with pytest.raises(UnknownDatabase), lock("report", using="nowhere"):
        pass


# The async twin


def test_the_async_twin_holds_and_frees_as_the_other_one_does():
    async def section():
        async with alock("report") as held:
            held.check()
            with pytest.raises(LockTaken):
                async with alock("report", wait=0.01):
                    pass
            return held.term, held

    term, held = async_to_sync(section)()
    assert term == 1
    assert not held.is_held
    assert row().holder == ""


def test_the_async_twin_frees_the_lock_of_a_section_that_raises(time):
    async def section(error=None):
        async with alock("report"):
            if error:
                raise error
            time.ahead = OVER

    with pytest.raises(ZeroDivisionError):
        async_to_sync(section)(ZeroDivisionError())
    assert row().holder == ""
    with pytest.raises(LockLost):
        async_to_sync(section)()


# Forks


def forked(child):
    """The exit code of a child process that calls ``child`` and ends at once; 1 if that raises."""
    with warnings.catch_warnings():
        # From Python 3.12 a fork in a process with threads warns of what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.alarm(int(DEADLINE))
        try:
            child()
        except BaseException:  # it must not go on as a second test run
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("end", ["leave", "raise", "collect"])
def test_the_child_of_a_fork_neither_renews_nor_frees_the_lock_of_its_parent(end):
    def child():
        assert held.is_held
        assert not [each for each in threading.enumerate() if "django_tasks-lock" in each.name]
        if end == "raise":
            assert not section.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        elif end == "leave":
            section.__exit__(None, None, None)
        else:
            section.gen.close()

    section = lock("report")
    with section as held:
        # The thread that renews the lock may have this at the moment of the fork.
        with held._mutex:
            code = forked(child)
        assert code == 0
        assert row().holder == held._hold.holder
        assert row().term == held.term
        assert held.is_held
    assert row().holder == ""


def test_what_the_child_of_a_fork_believes_ends_with_the_lease_that_it_knows(time):
    def child():
        time.ahead += locking.DEFAULT_LEASE + 1
        with pytest.raises(LockLost):
            section.__exit__(None, None, None)

    section = lock("report")
    with section as held:
        assert forked(child) == 0
        assert held.is_held
