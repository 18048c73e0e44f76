"""System checks of the backends of TASKS that are ours."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from django.core.checks import CheckMessage
from django.tasks import task_backends
from django.urls import get_resolver

from django_tasks.checks.messages import error, warning
from django_tasks.functions import declared, finding
from django_tasks.functions.backends import RowBackend, ours
from django_tasks.functions.options import problems_of
from django_tasks.handover.checks import beside_transaction
from django_tasks.sentences import sentence as _
from django_tasks.store.aliases import write_alias


def messages(backend: RowBackend, problems: Iterable[str]) -> Iterator[CheckMessage]:
    """E007, E008, E012, W010, W012, W014; ``problems``: the backend's own about its OPTIONS."""
    place = f"TASKS[{backend.alias!r}]"
    unusable = problems_of(backend.options, backend.defaults)
    found = [*unusable, *problems, *finding.missing(backend.wishes.modules)]
    for problem in found:
        yield error("E007", _("%(place)s: %(problem)s.", place=place, problem=problem))
    finding.FunctionFinder().discover()
    cure = _("Give one of them @options(biz_code=…).")
    yield from (error("E008", f"{clash}.", cure) for clash in declared.problems())
    if not found:
        if backend is next(ours(), None):  # once, however many backends there are
            yield from (error("E012", f"{text}.") for text in finding.not_imported())
            with suppress(Exception):  # Django tells of it
                get_resolver().url_patterns  # noqa: B018 - views import what no worker does
            cure = _("Put it into a tasks.py of an app, or name its module in MODULES.")
            yield from (warning("W014", f"{text}.", cure) for text in finding.never_running())
        yield from chain(_hand_over(place, backend), _database(place, backend))


def _hand_over(place: str, backend: RowBackend) -> Iterator[CheckMessage]:
    wishes = backend.wishes
    if wishes.to is not None and wishes.atomic:
        yield from beside_transaction(place, task_backends[wishes.to], backend.database)


def _database(place: str, backend: RowBackend) -> Iterator[CheckMessage]:
    usual = write_alias(None)
    if backend.database != usual:
        yield warning(
            "W012",
            _(
                "%(place)s keeps its calls in the database %(alias)r, and the routers name "
                "%(usual)r for tasks: a worker that is started without a database does not "
                "look there.",
                place=place,
                alias=backend.database,
                usual=usual,
            ),
            _(
                "Start workers for it, by starttask --database %(alias)s; or have a router name "
                "it for django_tasks.",
                alias=backend.database,
            ),
        )
