"""Tasks are written by the functions of the API alone; the ORM reads them, and says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django import forms
from django.core.management import call_command
from django.db import connection, connections, models
from django.db.migrations.executor import MigrationExecutor
from django.template import Context, Template

from django_tasks.api import DirectWrite, TaskException, add_task
from django_tasks.models import Task
from tests.factories import CODE, NOW, a_row, a_task, in_utc, table, the_row, there_is

pytestmark = pytest.mark.django_db

ADD, MANY = "add_task", "add_tasks"
STEER = "add_task, reschedule_task, run_task_now, pause_task, resume_task or requeue_task"
KEEP = "add_task(task, on_conflict='keep')"
MOVE, CANCEL = "add_task or reschedule_task", "cancel_task or delete_tasks"

FIELDS = {"biz_code": CODE, "biz_num": "2", "when": NOW}
KEY: dict[str, Any] = {"biz_code": CODE, "biz_num": "1"}

# What a project may write, the call that the error names, and what it is told to call.
WRITES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "save a new one": (lambda: a_task("2").save(), "save", MOVE),
    "save a row": (lambda: the_row().save(), "save", MOVE),
    "save a field": (lambda: the_row().save(update_fields=["status"]), "save", MOVE),
    "create": (lambda: Task.objects.create(**FIELDS), "create", ADD),
    "create elsewhere": (lambda: Task.objects.using("default").create(**FIELDS), "create", ADD),
    "get or create": (lambda: Task.objects.get_or_create(**KEY), "get_or_create", KEEP),
    "update or create": (lambda: Task.objects.update_or_create(**KEY), "update_or_create", ADD),
    "bulk create": (lambda: Task.objects.bulk_create([a_task("2")]), "bulk_create", MANY),
    "bulk update": (lambda: Task.objects.bulk_update([the_row()], ["when"]), "bulk_update", MANY),
    "update all": (lambda: Task.objects.update(status=0), "update", STEER),
    "update some": (lambda: Task.objects.filter(**KEY).update(when=NOW), "update", STEER),
    "delete a row": (lambda: the_row().delete(), "delete", CANCEL),
    "delete some": (lambda: Task.objects.filter(**KEY).delete(), "delete", CANCEL),
    "delete none": (lambda: Task.objects.none().delete(), "delete", CANCEL),
}

ASYNC_WRITES: dict[str, Callable[[Task], Any]] = {
    "save": lambda row: row.asave(),
    "delete": lambda row: row.adelete(),
    "create": lambda row: Task.objects.acreate(**FIELDS),
    "get_or_create": lambda row: Task.objects.aget_or_create(**KEY),
    "update_or_create": lambda row: Task.objects.aupdate_or_create(**KEY),
    "bulk_create": lambda row: Task.objects.abulk_create([row]),
    "bulk_update": lambda row: Task.objects.abulk_update([row], ["when"]),
    "update": lambda row: Task.objects.aupdate(status=0),
}


def stored() -> list[dict[str, Any]]:
    return [dict(row) for row in Task.objects.order_by("pk").values()]


@pytest.mark.parametrize("what", WRITES)
def test_the_orm_writes_no_task_and_says_what_does(what: str) -> None:
    a_row()
    before = stored()
    write, call, instead = WRITES[what]
    with pytest.raises(DirectWrite) as caught:
        write()
    sentence = f"{call}() would write tasks behind the workers' backs; call {instead} instead"
    assert str(caught.value) == sentence
    assert isinstance(caught.value, TaskException)
    assert stored() == before


@pytest.mark.parametrize("call", ASYNC_WRITES)
def test_its_async_ways_are_closed_too(call: str) -> None:
    row = a_row()
    before = stored()

    async def write() -> None:
        await ASYNC_WRITES[call](row)

    with pytest.raises(DirectWrite) as caught:
        async_to_sync(write)()
    assert caught.value.call == call
    assert stored() == before


def test_every_way_to_write_that_django_has_is_closed() -> None:
    public = {name for name in dir(models.QuerySet) if not name.startswith("_")}
    writing = {
        name for name in public if getattr(getattr(models.QuerySet, name), "alters_data", False)
    }
    plain = {name for name in writing if name[1:] not in writing}
    assert {"create", "update", "delete", "bulk_update"} <= plain
    for name in plain:
        with pytest.raises(DirectWrite):
            getattr(Task.objects.all(), name)()


def test_a_form_of_the_model_does_not_save() -> None:
    form = forms.modelform_factory(Task, fields=["biz_code", "biz_num", "when", "priority"])
    data = {"biz_code": CODE, "biz_num": "2", "when": "2030-01-01 00:00", "priority": "0"}
    with pytest.raises(DirectWrite):
        form(data).save()
    assert not there_is("2")


def test_no_template_writes_either() -> None:
    a_row()
    context = Context({"row": the_row(), "tasks": Task.objects.all()})
    assert Template("{{ row.delete }}{{ tasks.delete }}{{ tasks.update }}").render(context) == ""


def test_the_manager_has_no_delete_as_no_manager_has() -> None:
    assert not hasattr(Task.objects, "delete")


def test_everything_can_be_read() -> None:
    row = a_row()
    found = Task.objects.select_for_update(of=()).order_by("when").annotate(n=models.F("version"))
    assert list(found) == [row]
    assert Task.objects.using("default").in_bulk() == {row.pk: row}
    assert Task.objects.aggregate(models.Max("version")) == {"version__max": 0}
    assert Task.objects.filter(models.Q(**KEY)).exists()
    assert Task._default_manager is Task._meta.default_manager
    row.refresh_from_db()


# What Django, and the store, need


def test_a_task_shows_itself_without_a_question_and_without_its_payload(queries: Any) -> None:
    a_row(biz_ext={"password": "hunter2"})
    whole, part = Task.objects.get(), Task.objects.only("biz_code", "biz_num").get()
    with queries() as asked:
        assert repr(whole) == f"<Task order/1 PENDING when={whole.when}>"
        assert repr(part) == "<Task order/1>"
    assert not asked.captured_queries
    assert repr(Task(biz_code="a", biz_num="b", status=99)) == "<Task a/b>"


def test_the_base_manager_is_plain() -> None:
    a_row()
    assert type(Task._base_manager) is models.Manager
    assert type(Task._base_manager.all()) is models.QuerySet
    assert table().update(version=7) == 1
    assert the_row().version == 7
    assert table().delete()[0] == 1


def test_fixtures_are_dumped_and_loaded(tmp_path: Path) -> None:
    when = NOW.replace(microsecond=0)  # Django's JSON has milliseconds
    before = add_task(a_task(when=when, biz_ext={"a": [1]}, schedule="every 1h"))
    fixture = tmp_path / "tasks.json"
    call_command("dumpdata", "django_tasks.task", output=str(fixture))
    assert len(json.loads(fixture.read_text())) == 1
    table().delete()
    call_command("loaddata", str(fixture), verbosity=0)
    after = the_row()
    assert (after.pk, after.biz_ext, after.schedule) == (before.pk, {"a": [1]}, "every 1h")
    assert in_utc(after.when) == when


def test_the_model_of_a_migration_is_plain() -> None:
    state = MigrationExecutor(connection).loader.project_state()
    historic = state.apps.get_model("django_tasks", "Task")
    row = historic.objects.create(queue="default", priority=0, **FIELDS)
    historic.objects.update(version=3)
    row.refresh_from_db()
    row.save()
    assert the_row("2").version == 3
    row.delete()
    assert not there_is("2")


def test_there_is_nothing_to_migrate() -> None:
    call_command("makemigrations", "django_tasks", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.django_db(transaction=True)
def test_a_flush_empties_the_table() -> None:
    a_row()
    call_command("flush", interactive=False, verbosity=0)
    assert not there_is()


@pytest.mark.django_db(transaction=True)
def test_a_database_can_be_put_away_as_text_and_back() -> None:
    a_row(version=5)
    creation = connections["default"].creation
    text = creation.serialize_db_to_string()
    table().delete()
    creation.deserialize_db_from_string(text)
    assert the_row().version == 5
