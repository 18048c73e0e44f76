"""pause_tasks, resume_tasks, paused, and their async twins."""

from functools import partial

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.db import transaction

from django_tasks import api, signals
from django_tasks.client import pauses
from django_tasks.exceptions import TaskTypeError, TaskValueError, UnknownDatabase
from django_tasks.models import Pause
from django_tasks.wakeup import local
from tests.factories import CODE, NOW, in_utc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

SCOPES = [{}, {"biz_code": CODE}, {"queue": "mail"}, {"biz_code": CODE, "queue": "mail"}]


@pytest.fixture
def heard():
    """(signal, its facts) of everything that is told of pauses."""
    told = []
    receivers = []
    for name in ("tasks_paused", "tasks_resumed"):

        def hear(sender, signal, name, **facts):
            told.append((name, sender, facts))

        receiver = partial(hear, name=name)
        receivers.append(receiver)
        getattr(signals, name).connect(receiver)
    yield told
    for name, receiver in zip(("tasks_paused", "tasks_resumed"), receivers, strict=True):
        getattr(signals, name).disconnect(receiver)


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_pause_and_its_end_change_something_once(scope, heard):
    assert [api.pause_tasks(**scope) for _ in range(2)] == [True, False]
    (pause,) = api.paused()
    names = {"biz_code": "", "queue": ""} | scope
    assert {"biz_code": pause.biz_code, "queue": pause.queue} == names
    assert in_utc(pause.since) == NOW

    assert [api.resume_tasks(**scope) for _ in range(2)] == [True, False]
    assert api.paused() == []
    facts = names | {"using": "default"}
    assert heard == [("tasks_paused", Pause, facts), ("tasks_resumed", Pause, facts)]


def test_each_scope_is_paused_by_itself_and_the_widest_comes_first():
    for scope in reversed(SCOPES):
        assert api.pause_tasks(**scope)

    assert [str(pause) for pause in api.paused()] == ["*/*", f"*/{CODE}", "mail/*", f"mail/{CODE}"]


def test_a_pause_keeps_who_has_made_it_first():
    assert api.pause_tasks(biz_code=CODE, by="anna, because of order 42")
    assert not api.pause_tasks(biz_code=CODE, by="deploy.sh")
    assert api.pause_tasks()

    assert [pause.by for pause in api.paused()] == ["", "anna, because of order 42"]


def test_words_of_200_characters_say_who_and_no_more():
    assert api.pause_tasks(by="b" * 200)
    with pytest.raises(TaskValueError, match=r"by.*201 characters") as caught:
        api.pause_tasks(queue="mail", by="b" * 201)
    assert caught.value.field == "by"
    assert len(api.paused()) == 1


@pytest.mark.parametrize(
    ("value", "error"), [(None, TaskTypeError), (5, TaskTypeError), ("a\0b", TaskValueError)]
)
def test_what_says_who_is_a_text(value, error):
    with pytest.raises(error) as caught:
        api.pause_tasks(by=value)
    assert caught.value.field == "by"
    assert api.paused() == []


def test_a_pause_that_is_rolled_back_was_none():
    with transaction.atomic():
        assert api.pause_tasks()
        transaction.set_rollback(True)

    assert api.paused() == []


@pytest.mark.parametrize("call", [api.pause_tasks, api.resume_tasks])
@pytest.mark.parametrize("name", ["biz_code", "queue"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, TaskTypeError),
        (5, TaskTypeError),
        (" x", TaskValueError),
        ("x" * 51, TaskValueError),
        ("a\0b", TaskValueError),
        ("\ud800", TaskValueError),
    ],
)
def test_bad_names_are_refused_by_field_and_value(call, name, value, error):
    with pytest.raises(error) as caught:
        call(**{name: value})

    assert caught.value.field == name
    assert api.paused() == []


@pytest.mark.parametrize("call", [api.pause_tasks, api.resume_tasks, api.paused])
def test_an_unknown_database_is_named(call):
    with pytest.raises(UnknownDatabase, match="elsewhere"):
        call(using="elsewhere")


def test_workers_of_this_process_hear_of_the_end(django_capture_on_commit_callbacks):
    rung = []
    local.listen("default", ring := lambda overdue: rung.append(overdue))
    try:
        with django_capture_on_commit_callbacks(execute=True):
            api.pause_tasks(biz_code=CODE)
            api.resume_tasks(queue="none")
        assert rung == []
        with django_capture_on_commit_callbacks(execute=True):
            api.resume_tasks(biz_code=CODE)
        assert rung == [True]
    finally:
        local.stop_listening("default", ring)


def test_the_twins_do_what_their_originals_do():
    for name in ("pause_tasks", "resume_tasks", "paused"):
        assert iscoroutinefunction(getattr(pauses, f"a{name}"))

    async def day():
        assert await api.apause_tasks(biz_code=CODE, by="anna")
        assert [pause.by for pause in await api.apaused()] == ["anna"]
        assert await api.aresume_tasks(biz_code=CODE)

    async_to_sync(day)()
