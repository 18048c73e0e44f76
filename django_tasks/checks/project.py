"""Checks of the installation, the handlers and the settings."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.urls import URLPattern, get_resolver

from django_tasks import conf, installation
from django_tasks.checks.messages import error, refusals, sqlite_files, warning
from django_tasks.handlers import registry
from django_tasks.handlers.finders import known_handlers
from django_tasks.handlers.misspelt_names import slips
from django_tasks.near_names import closest
from django_tasks.sentences import sentence as _


def check_installation(**kwargs: Any) -> list[CheckMessage]:
    """E001"""
    clash = installation.clash()
    return [Error(clash, hint=installation.CURE, id=installation.CHECK_ID)] if clash else []


def check_handlers(**kwargs: Any) -> list[CheckMessage]:
    """E002"""
    # The registry notes an unusable TASK_HANDLERS too; that is E003.
    problems = set(registry.problems()) - set(refusals(conf.handler_paths))
    hint = _("Mend it, or take it out; no worker runs its tasks as it is.")
    return [error("E002", problem, hint) for problem in sorted(problems)]


def check_atomic_handlers(**kwargs: Any) -> list[CheckMessage]:
    """W006: right in development, and to be thought about before production"""
    return [found for alias in sqlite_files() for found in _atomic_handlers(alias)]


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E003, W001"""
    not_a_dict = refusals(conf.unknown_names)
    problems = [error("E003", text) for text in (*not_a_dict, *refusals(conf.handler_paths))]
    return problems if not_a_dict else [*problems, *_bad_values(), *_unknown_names()]


def check_pages(**kwargs: Any) -> list[CheckMessage]:
    """W013. Nothing is said of a project that has no admin site in its URLs, or has them elsewhere;
    nor of URLs that cannot be read, of which Django tells.
    """
    try:
        views = list(_views(get_resolver().url_patterns))
    except Exception:  # noqa: BLE001 - the project's own modules are imported
        return []
    sites = {site for view in views if (site := getattr(view.callback, "admin_site", None))}
    if not sites or any(
        model._meta.app_label == "django_tasks" for site in sites for model in site._registry
    ):
        return []
    problem = _(
        "No admin site in the URLs of this project shows the pages of the tasks (there are: "
        "%(sites)s).",
        sites=", ".join(sorted(repr(site.name) for site in sites)),
    )
    return [warning("W013", problem, _("Call django_tasks.admin.register(site) for one of them."))]


def _views(patterns: Iterable[Any]) -> Iterator[URLPattern]:
    for each in patterns:
        if isinstance(each, URLPattern):
            yield each
        else:
            yield from _views(each.url_patterns)


def check_backports_name(**kwargs: Any) -> list[CheckMessage]:
    """W009"""
    return [
        warning(
            "W009",
            _(
                "TASKS[%(alias)r] names a backend of the PyPI distribution "
                "'django-tasks', %(backend)r, which this package is not.",
                alias=alias,
                backend=backend,
            ),
            _("On Django 6.0 and later name 'django_tasks.backend.DatabaseBackend'."),
        )
        for alias, backend in _task_backends()
        if backend.startswith("django_tasks.backends.")
    ]


def _task_backends() -> Iterator[tuple[str, str]]:
    wishes = getattr(settings, "TASKS", None)
    if isinstance(wishes, dict):
        for alias, wish in wishes.items():
            if isinstance(wish, dict):
                yield alias, str(wish.get("BACKEND"))


def _atomic_handlers(alias: str) -> Iterator[CheckMessage]:
    for code, handler in known_handlers().items():
        if handler.atomic:
            yield warning(
                "W006",
                _(
                    "The handler of %(code)r (%(handler)s) is atomic and may run on the "
                    "SQLite database %(alias)r: while it runs, nobody else can write, and no "
                    "worker can send its heartbeat.",
                    code=code,
                    handler=registry.describe(handler),
                    alias=alias,
                ),
                _(
                    "Keep its runs far shorter than the lease: slow work, such as calls over "
                    "the network, belongs before or after it, in a handler that is not "
                    "atomic. Or keep the tasks in MariaDB, MySQL or PostgreSQL."
                ),
            )


def _bad_values() -> Iterator[CheckMessage]:
    for name, problem in conf.problems():
        yield error("E003", _("DJANGO_TASKS[%(name)r] %(problem)s", name=name, problem=problem))


def _unknown_names() -> Iterator[CheckMessage]:
    for name in conf.unknown_names():
        yield warning(
            "W001", _("DJANGO_TASKS[%(name)r] means nothing.", name=name), _did_you_mean(name)
        )


def _did_you_mean(name: str) -> str:
    if near := closest(name, conf.names()):
        return _("Did you mean %(near)r?", near=near)
    return _("There are: %(names)s.", names=", ".join(conf.names()))


def check_names(**kwargs: Any) -> list[CheckMessage]:
    """W008"""
    return [
        warning(
            "W008",
            _(
                "%(where)s has %(name)r, which means nothing to django_tasks.",
                where=where,
                name=name,
            ),
            _(
                "Did you mean %(near)r? A name of your own may begin with an underscore.",
                near=meant,
            ),
        )
        for where, name, meant in slips()
    ]
