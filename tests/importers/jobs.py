"""Functions that jobs of other schedulers call, as a project has them."""

from typing import Any


def push(*args: Any, **kwargs: Any) -> None: ...


def pull() -> None: ...


class Shop:
    def close(self) -> None: ...

    @staticmethod
    def push() -> None: ...


class Opaque:
    """An argument that JSON does not know, and that can be pickled."""
