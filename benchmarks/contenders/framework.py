"""A database backend of Django's tasks framework, whichever."""

from importlib.metadata import version
from time import time
from typing import Any, ClassVar

from benchmarks.contenders.base import Contender, as_datetime
from benchmarks.contenders.django_setup import set_up


class Backend(Contender):
    """``app`` is its Django app, ``package`` its name on PyPI."""

    app: ClassVar[str]
    package: ClassVar[str]

    def prepare(self) -> None:
        set_up(self.url, self.app)

    def add(self, number: int, due: float) -> None:
        self.task(due).enqueue(number)

    def task(self, due: float) -> Any:
        """The task for that time, seconds since 1970; one that has passed means now."""
        from benchmarks.contenders.function import tick

        return tick.using(run_after=as_datetime(due)) if due > time() else tick

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in (self.package, "Django")}
