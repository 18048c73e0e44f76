"""ask_worker, set_limits, limits, and their async twins."""

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_tasks import api
from django_tasks.api import WorkerWish
from django_tasks.exceptions import TaskTypeError, TaskValueError, UnknownDatabase
from django_tasks.models import Gate, WorkerRow
from django_tasks.wakeup import local
from tests.factories import CODE, a_row, a_worker

pytestmark = pytest.mark.django_db


# Wishes


@pytest.mark.parametrize("wish", ["quiet", "stop", "", *WorkerWish])
def test_a_wish_stands_in_the_row_of_its_worker(wish):
    other, asked = a_worker("other").pk, a_worker("asked").pk
    assert api.ask_worker(asked, wish)
    assert WorkerRow.objects.get(pk=asked).wish == wish
    assert WorkerRow.objects.get(pk=other).wish == ""


def test_a_wish_that_is_there_already_still_finds_its_worker():
    worker = a_worker().pk
    assert [api.ask_worker(worker, "quiet") for _ in range(2)] == [True, True]


def test_a_worker_that_is_gone_cannot_be_asked():
    worker = a_worker().pk
    WorkerRow.objects.all().delete()
    assert not api.ask_worker(worker, "stop")


@pytest.mark.parametrize(
    ("worker_id", "wish", "field", "error"),
    [
        ("1", "quiet", "worker_id", TaskTypeError),
        (None, "quiet", "worker_id", TaskTypeError),
        (True, "quiet", "worker_id", TaskTypeError),
        (0, "quiet", "worker_id", TaskValueError),
        (2**63, "quiet", "worker_id", TaskValueError),
        (1, "die", "wish", TaskValueError),
        (1, "QUIET", "wish", TaskValueError),
        (1, None, "wish", TaskTypeError),
        (1, 5, "wish", TaskTypeError),
    ],
)
def test_what_cannot_be_asked_is_refused_by_field_and_value(worker_id, wish, field, error):
    with pytest.raises(error) as caught:
        api.ask_worker(worker_id, wish)
    assert caught.value.field == field


def test_a_wish_that_is_rolled_back_was_none():
    worker = a_worker().pk
    with transaction.atomic():
        assert api.ask_worker(worker, "stop")
        transaction.set_rollback(True)
    assert WorkerRow.objects.get().wish == ""


# Limits


def test_limits_are_set_both_at_once_and_removed():
    assert api.set_limits(CODE, max_running=3)
    assert not api.set_limits(CODE, max_running=3)
    assert api.set_limits("other", rate_limit="100/m")
    assert api.limits() == {CODE: (3, None), "other": (None, "100/m")}
    assert api.set_limits(CODE, rate_limit="5/s")
    assert api.limits()[CODE] == (None, "5/s")
    assert api.set_limits(CODE)
    assert not api.set_limits(CODE)
    assert api.limits() == {"other": (None, "100/m")}


@pytest.mark.parametrize(
    ("limits", "field", "error"),
    [
        ({"max_running": 0}, "max_running", TaskValueError),
        ({"max_running": -1}, "max_running", TaskValueError),
        ({"max_running": "3"}, "max_running", TaskTypeError),
        ({"max_running": True}, "max_running", TaskTypeError),
        ({"max_running": 10**7}, "max_running", TaskValueError),
        ({"rate_limit": 5}, "rate_limit", TaskTypeError),
        ({"rate_limit": ""}, "rate_limit", TaskValueError),
        ({"rate_limit": "5/w"}, "rate_limit", TaskValueError),
        ({"max_running": 1, "rate_limit": "x"}, "rate_limit", TaskValueError),
    ],
)
def test_limits_that_cannot_be_are_refused_and_change_nothing(limits, field, error):
    with pytest.raises(error) as caught:
        api.set_limits(CODE, **limits)
    assert caught.value.field == field
    assert not Gate.objects.exists()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (None, TaskTypeError),
        ("", TaskValueError),
        (" x", TaskValueError),
        ("x" * 51, TaskValueError),
    ],
)
def test_a_code_that_cannot_be_is_refused(code, error):
    with pytest.raises(error) as caught:
        api.set_limits(code, max_running=1)
    assert caught.value.field == "biz_code"


def test_limits_that_are_rolled_back_were_none():
    with transaction.atomic():
        assert api.set_limits(CODE, max_running=1)
        transaction.set_rollback(True)
    assert api.limits() == {}


def test_workers_of_this_process_hear_of_a_change(django_capture_on_commit_callbacks):
    rung = []
    local.listen("default", ring := lambda overdue: rung.append(overdue))
    try:
        for count, most in ((1, 2), (1, 2), (2, None)):
            with django_capture_on_commit_callbacks(execute=True):
                api.set_limits(CODE, max_running=most)
            assert rung == [True] * count
    finally:
        local.stop_listening("default", ring)


@pytest.mark.parametrize(
    "call",
    [
        lambda using: api.ask_worker(1, "stop", using=using),
        lambda using: api.set_limits(CODE, max_running=1, using=using),
        lambda using: api.limits(using=using),
    ],
)
def test_an_unknown_database_is_named(call):
    with pytest.raises(UnknownDatabase, match="elsewhere"):
        call("elsewhere")


def test_the_twins_do_what_their_originals_do():
    worker = a_worker().pk

    async def day():
        assert await api.aask_worker(worker, "quiet")
        assert await api.aset_limits(CODE, max_running=2, rate_limit="5/m")
        assert await api.alimits() == {CODE: (2, "5/m")}

    async_to_sync(day)()
    assert WorkerRow.objects.get().wish == "quiet"


@pytest.mark.parametrize(
    "change",
    [
        lambda name: api.pause_tasks(biz_code=name),
        lambda name: api.set_limits(name, max_running=1),
    ],
)
def test_a_code_that_nothing_has_is_paused_and_limited_and_told_in_the_log(change, caplog):
    a_row("1")
    assert change("orders")
    assert caplog.messages == [
        f"No handler and no task has the code 'orders'; did you mean {CODE!r}?"
    ]
    caplog.clear()
    a_worker("elsewhere", codes=["far"])
    a_worker("broken", codes=5)
    assert change(CODE)
    assert change("far")
    assert caplog.messages == []
