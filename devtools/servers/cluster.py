"""Several servers that are one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from devtools.messages import Problem
from devtools.servers.places import locked
from devtools.servers.server import Server


class Cluster:
    """Several servers that are started together, and one by one by names like ``galera:2``."""

    name: str
    title: str
    members: Sequence[Server]

    def start(self, sync: bool = False) -> None:
        raise NotImplementedError

    @contextmanager
    def locked(self) -> Iterator[None]:
        with locked(self.name):
            yield

    def was_started(self) -> bool:
        return any(member.was_started() for member in self.members)

    def stop(self, keep: bool = False) -> None:
        """The last started first: the one that stops last knows everything and can start alone."""
        for member in reversed(self.members):
            member.stop(keep=keep)
        if not keep:
            for member in self.members:
                member.forget()

    def kill(self) -> None:
        for member in self.members:
            if member.process() is not None:
                member.kill()

    def restart(self, kill: bool = False) -> None:
        if not self.was_started():
            raise Problem(f"{self.title} was never started.")
        if kill:
            self.kill()
        else:
            self.stop(keep=True)
        self.start()

    def status(self) -> bool:
        statuses = [member.status() for member in self.members]  # each of them prints
        return all(statuses)

    def missing_packages(self) -> list[str]:
        """The packages to install; none if its servers are installed."""
        missing = (member.missing_packages() for member in self.members)
        return next(filter(None, missing), [])

    def print_url(self) -> None:
        for member in self.members:
            member.print_url()
