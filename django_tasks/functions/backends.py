"""The backends of the setting TASKS that are ours."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.tasks import task_backends
from django.tasks.backends.base import BaseTaskBackend

from django_tasks.functions.options import wishes_of


class RowBackend(BaseTaskBackend):
    """A backend whose calls are rows of ours, and the wishes of its OPTIONS."""

    # The names of OPTIONS, and their values where nothing is said.
    defaults: ClassVar[dict[str, Any]] = {
        "DATABASE": None,
        "MAX_ATTEMPTS": 1,
        "BACKOFF": None,
        "RESULTS": "all",
        "MODULES": (),
    }

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.wishes = wishes_of(self.options, self.defaults)

    @property
    def database(self) -> str:
        """The alias of the database that has its calls. Raises UnknownDatabase."""
        from django_tasks.store.aliases import write_alias  # it needs the models

        return write_alias(self.wishes.database)


def ours() -> Iterator[RowBackend]:
    """The backends of ours; one that cannot be made is left out: Django's own check tells of it."""
    for alias in task_backends.settings:
        if (backend := backend_of(alias)) is not None:
            yield backend


def modules() -> list[str]:
    """The modules of MODULES."""
    return [module for backend in ours() for module in backend.wishes.modules]


def backend_of(alias: str) -> RowBackend | None:
    """The backend of an alias, if there is one and it is ours."""
    backend = _backend(alias)
    return backend if isinstance(backend, RowBackend) else None


def sender_of(alias: str) -> type[BaseTaskBackend]:
    """The class that sends Django's signals about calls of a backend, which may be gone."""
    backend = _backend(alias)
    return RowBackend if backend is None else type(backend)


def target_of(alias: str) -> str | None:
    """The alias of the backend to which calls of a backend are handed, if they are."""
    backend = backend_of(alias)
    return None if backend is None else backend.wishes.to


def way_from(alias: str) -> Iterator[str]:
    """The aliases through which calls go from that of a backend on, each once."""
    seen: set[str] = set()
    following: str | None = alias
    while following in task_backends.settings and following not in seen:
        seen.add(following)
        yield following
        following = target_of(following)


def _backend(alias: str) -> BaseTaskBackend | None:
    try:
        return task_backends[alias]
    except Exception:  # noqa: BLE001 - a stranger's backend may raise anything
        return None
