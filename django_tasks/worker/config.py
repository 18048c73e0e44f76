"""The options of one worker. Frozen: every thread reads it."""

import os
import secrets
from dataclasses import dataclass, field
from typing import Any

from django_tasks import __version__, conf
from django_tasks.conf import options
from django_tasks.exceptions import TaskValueError
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.store.dialects import Bounds
from django_tasks.store.workers import Registration
from django_tasks.values.keys import check_new


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Durations are seconds. Empty ``queues`` or ``codes`` mean all of them."""

    using: str
    threads: int
    batch_size: int
    poll_interval: float
    lease: float
    shutdown_timeout: float
    queues: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    until_empty: bool = False
    max_tasks: int | None = None
    doorbell: str = ""
    host: str = field(default_factory=conf.host_name)

    @property
    def heartbeat_interval(self) -> float:
        return self.lease / 3

    @property
    def heartbeat_bounds(self) -> Bounds:
        """The longest waits of a heartbeat, which is two statements: it must not miss a beat."""
        return Bounds(lock_wait=self.lease / 12, statement=self.lease / 6)

    @property
    def poller_bounds(self) -> Bounds:
        """The longest waits of the poller: it must finish a cycle within a lease."""
        return Bounds(lock_wait=self.lease / 6, statement=self.lease / 2)

    def serves(self, queue: str, biz_code: str) -> bool:
        """Tell if this worker is for tasks of this code in this queue."""
        is_queue = not self.queues or queue in self.queues
        return is_queue and (not self.codes or biz_code in self.codes)

    def registration(self) -> Registration:
        name = f"{self.host}:{os.getpid()}:{secrets.token_hex(3)}"
        return Registration(
            name[-200:],
            self.lease,
            self.threads,
            self.queues,
            host=self.host[:200],
            pid=os.getpid(),
            version=__version__[:50],
        )


_OPTIONS = ("threads", "batch_size", "poll_interval", "lease", "shutdown_timeout", "doorbell")
_NAMES = ("queues", "codes")


def worker_config(using: str, **wishes: Any) -> WorkerConfig:
    """The config that the settings ask for, but for ``wishes``.

    Raises TaskValueError for a value that a setting could not have either, TypeError for a wish
    that there is not.
    """
    values = {name: getattr(options(), name) for name in _OPTIONS}
    for name, value in wishes.items():
        if name not in WorkerConfig.__dataclass_fields__:
            raise TypeError(
                _(
                    "a worker has no %(name)r: it has %(names)s",
                    name=name,
                    names=", ".join((*_OPTIONS, *_NAMES)),
                )
            )
        values[name] = _checked(name, value)
    for queue in values.get("queues", ()):  # codes may be those of old rows
        check_new("queues", str(queue))
    return WorkerConfig(using=using, **values)


def _checked(name: str, value: Any) -> Any:
    try:
        if name in _OPTIONS:
            return conf.convert(name.upper(), value)
        if name in _NAMES:
            # A lone string is one name, not as many as it has letters.
            return (value,) if isinstance(value, str) else tuple(value)
    except (TypeError, ValueError) as error:
        raise TaskValueError(name, value, said(error)) from None
    return value
