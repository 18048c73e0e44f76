"""What one worker was asked to do. Frozen: every thread reads it."""

import os
import secrets
import socket
from dataclasses import dataclass

from django_tasks.conf import options
from django_tasks.store.workers import Registration


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

    @property
    def heartbeat_interval(self) -> float:
        return self.lease / 3

    @property
    def lock_wait(self) -> float:
        """The longest wait of the poller for a row's lock: its heartbeat must not miss a beat."""
        return self.lease / 6

    def registration(self) -> Registration:
        name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        return Registration(name[-200:], self.lease, self.threads, self.queues)


def default_config(using: str) -> WorkerConfig:
    """The config that the settings ask for."""
    wishes = options()
    return WorkerConfig(
        using=using,
        threads=wishes.threads,
        batch_size=wishes.batch_size,
        poll_interval=wishes.poll_interval,
        lease=wishes.lease,
        shutdown_timeout=wishes.shutdown_timeout,
    )
