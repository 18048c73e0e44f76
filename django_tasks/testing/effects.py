"""The effects of a run: the rows of all models of the project, the tasks, and the mails sent."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from django.apps import apps
from django.core import mail
from django.core.exceptions import FieldDoesNotExist
from django.db import models, router

from django_tasks.exceptions import TaskTypeError, TaskValueError, shortened
from django_tasks.models import Task

OURS = "django_tasks"
TASKS = "django_tasks.Task"
MAILS = "mail.outbox"
_OF_TASK = (
    *("biz_code", "biz_num", "when", "biz_ext", "queue", "priority", "schedule", "name"),
    "status",
)

Row = Mapping[str, Any]
# By table: its label, and the database if there are several. By key: rows.
Rows = Mapping[str, Mapping[Any, Row]]
# A label and a column.
Column = tuple[str, str]
# Rows that differ in nothing that counts are one, counted.
Bag = Counter[frozenset[tuple[str, Any]]]


class Effects(NamedTuple):
    """All that could be seen at one moment."""

    rows: Rows
    mails: tuple[Any, ...]


class CountedModels:
    """The models that count, on some databases, but for what a test leaves out."""

    def __init__(self, aliases: Sequence[str], ignored: Iterable[str]) -> None:
        """``ignored``: "app.Model" or "app.Model.field". Raises TaskValueError for another."""
        if isinstance(ignored, str) or not isinstance(ignored, Iterable):
            raise TaskTypeError("ignore", ignored, "must be a list of 'app.Model.field'")
        self._aliases = aliases
        self._ignored = {_checked(name) for name in ignored}
        self._models = {
            _label(model): model
            for model in apps.get_models(include_auto_created=True)
            if _counts(model) and (_label(model), "") not in self._ignored
        }

    def now(self) -> Effects:
        """All as it is now."""
        rows: dict[str, Mapping[Any, Row]] = {}
        for alias in self._aliases:
            there = {
                label: model
                for label, model in self._models.items()
                if router.allow_migrate_model(alias, model)
            }
            place = "" if len(self._aliases) == 1 else f" on {alias}"
            for label, model in there.items():
                rows[f"{label}{place}"] = self._rows_of(label, model, alias)
            if (TASKS, "") not in self._ignored and router.allow_migrate_model(alias, Task):
                rows[f"{TASKS}{place}"] = self._tasks(alias)
        return Effects(rows, tuple(_mails()))

    def _rows_of(self, label: str, model: type[models.Model], alias: str) -> dict[Any, Row]:
        fields = model._meta.concrete_fields
        kept = [each for each in fields if (label, each.name) not in self._ignored]
        names = [each.attname for each in kept]
        key = model._meta.pk
        found = model._base_manager.using(alias).values_list("pk", *names)
        is_given = key is not None and (key.has_default() or isinstance(key, models.AutoField))
        hidden = {key.attname} if key is not None and is_given else set()
        return {
            _plain(pk): {
                name: _plain(value)
                for name, value in zip(names, values, strict=True)
                if name not in hidden
            }
            for pk, *values in found
        }

    def _tasks(self, alias: str) -> dict[Any, Row]:
        names = [name for name in _OF_TASK if (TASKS, name) not in self._ignored]
        found = Task._base_manager.using(alias).values_list("biz_code", "biz_num", *names)
        return {
            (code, number): {name: _plain(value) for name, value in zip(names, values, strict=True)}
            for code, number, *values in found
        }


def linked(before: Effects, after: Effects) -> Effects:
    """``after`` with keys of new rows, which are others each time, as no more than "new"."""
    new = {
        label: rows.keys() - before.rows.get(label, {}).keys() for label, rows in after.rows.items()
    }
    references = _references()
    changed = {
        label: {
            key: {
                name: "new" if _is_new(references.get((_bare(label), name)), value, new) else value
                for name, value in row.items()
            }
            for key, row in rows.items()
        }
        for label, rows in after.rows.items()
    }
    return after._replace(rows=changed)


def unsteady(before: Effects, one: Effects, other: Effects) -> set[Column]:
    """The columns in which two runs from one state differ: times of day, random texts."""
    columns: set[Column] = set()
    for label, rows in one.rows.items():
        others, kept = other.rows[label], before.rows.get(label, {})
        for key in kept.keys() & rows.keys() & others.keys():
            columns |= {(label, name) for name in _different(rows[key], others[key])}
        ours = [row for key, row in rows.items() if key not in kept]
        theirs = [row for key, row in others.items() if key not in kept]
        names = {name for row in ours for name in row}
        columns |= {
            (label, name)
            for name in names
            if Counter(row[name] for row in ours) != Counter(row[name] for row in theirs)
        }
    return columns


def differences(
    before: Effects, single: Effects, crashed: Effects, left_out: set[Column]
) -> list[str]:
    """Sentences about what differs from what a single run leaves; none if nothing does."""
    lines = []
    for label, rows in single.rows.items():
        kept = before.rows.get(label, {})
        others = crashed.rows[label]
        for key in sorted(kept.keys() & (rows.keys() | others.keys()), key=repr):
            lines += _of_row(label, key, rows.get(key), others.get(key), left_out)
        ours = _bag(label, rows, kept, left_out)
        lines += _of_new_rows(label, ours, _bag(label, others, kept, left_out))
    return lines + _of_mails(single.mails, crashed.mails)


def _of_row(
    label: str, key: Any, single: Row | None, crashed: Row | None, left_out: set[Column]
) -> list[str]:
    name = f"{label} {_told_key(key)}"
    if single is None or crashed is None:
        there, then = ("there", "gone") if single is None else ("gone", "there")
        return [f"{name} is {there}; after a single run it is {then}"]
    return [
        f"{name} has {column}={shortened(crashed[column])}; after a single run"
        f" {shortened(single[column])}"
        for column in _different(single, crashed)
        if (label, column) not in left_out
    ]


def _of_new_rows(label: str, single: Bag, crashed: Bag) -> list[str]:
    extra, missing = list((crashed - single).elements()), list((single - crashed).elements())
    if not extra and not missing:
        return []
    if len(extra) == len(missing):
        return [_of_new_row(label, *pair) for pair in zip(missing, extra, strict=True)]
    counts = f"{_rows(crashed.total())}; after a single run {_rows(single.total())}"
    word, some = ("too many", extra) if len(extra) > len(missing) else ("missing", missing)
    return [f"{label} has {counts}. {word.capitalize()}: {_told_row(some[0])}"]


def _of_new_row(label: str, single: Iterable[Any], crashed: Iterable[Any]) -> str:
    there, here = dict(single), dict(crashed)
    told = ", ".join(
        f"{name}={shortened(here[name])}, after a single run {shortened(there[name])}"
        for name in _different(there, here)
    )
    return f"{label}: a new row has {told}"


def _of_mails(single: Sequence[Any], crashed: Sequence[Any]) -> list[str]:
    if len(single) == len(crashed):
        return []
    were = "was 1 mail" if len(crashed) == 1 else f"were {len(crashed)} mails"
    some = Counter(crashed) - Counter(single) or Counter(single) - Counter(crashed)
    mails = f": {shortened(next(iter(some)))}" if some else ""
    return [f"{MAILS}: there {were} sent; by a single run {len(single)}{mails}"]


def _bag(label: str, rows: Mapping[Any, Row], kept: Mapping[Any, Row], out: set[Column]) -> Bag:
    return Counter(
        frozenset((name, value) for name, value in row.items() if (label, name) not in out)
        for key, row in rows.items()
        if key not in kept
    )


def _different(one: Row, other: Row) -> list[str]:
    return [name for name in one if one[name] != other.get(name)]


def _references() -> dict[Column, str]:
    """The labels of the models that foreign keys lead to."""
    return {
        (_label(model), field.attname): _label(field.related_model)
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.concrete_fields
        if field.is_relation and isinstance(field.related_model, type)
    }


def _is_new(target: str | None, value: Any, new: Mapping[str, Any]) -> bool:
    if target is None or value is None:
        return False
    return any(_bare(label) == target and value in keys for label, keys in new.items())


def _bare(label: str) -> str:
    return label.partition(" on ")[0]


def _counts(model: type[models.Model]) -> bool:
    meta = model._meta
    return meta.managed and not meta.proxy and not meta.swapped and meta.app_label != OURS


def _label(model: Any) -> str:
    return str(model._meta.label)


def _plain(value: Any) -> Any:
    """A value that can be compared and counted."""
    if isinstance(value, memoryview):
        return bytes(value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _mails() -> list[tuple[Any, ...]]:
    """Mails of Django's locmem backend."""
    outbox = getattr(mail, "outbox", [])
    return [(tuple(each.to), each.subject) for each in outbox]


def _checked(name: Any) -> Column:
    app, model_name, column = (*str(name).split(".", 2), "", "")[:3]
    with suppress(LookupError, ValueError, FieldDoesNotExist):
        model = apps.get_model(app, model_name)
        return _label(model), model._meta.get_field(column).name if column else ""
    raise TaskValueError("ignore", name, "must be 'app.Model' or 'app.Model.field' of the project")


def _rows(count: int) -> str:
    return "1 new row" if count == 1 else f"{count} new rows"


def _told_key(key: Any) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _told_row(row: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={shortened(value)}" for name, value in sorted(row))
