"""The place where a coroutine waits, in words for a person."""

import os
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Any

# The standard library, and the directories of installed packages, which may be elsewhere.
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INSTALLED = "site-packages", "dist-packages"


def place_of(coroutine: Any) -> str:
    """The innermost line of the project's own code at which a suspended ``coroutine`` waits.

    As "shop/tasks.py:42 in handle"; the outermost line if none is the project's own, and "its end"
    for a coroutine that has ended.
    """
    frames = list(_frames(coroutine))
    if not frames:
        return "its end"
    own = [frame for frame in frames if not _is_library(frame.f_code.co_filename)]
    frame = own[-1] if own else frames[0]
    return f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


def _frames(awaited: Any) -> Iterator[FrameType]:
    """From the outermost to the innermost: of coroutines and of generators they wait for."""
    while awaited is not None:
        kind = next(
            (kind for kind in ("cr", "gi", "ag") if hasattr(awaited, f"{kind}_frame")), None
        )
        frame = kind and getattr(awaited, f"{kind}_frame")
        if not kind or not frame:
            return
        yield frame
        awaited = getattr(awaited, f"{kind}_yieldfrom" if kind == "gi" else f"{kind}_await")


def _is_library(path: str) -> bool:
    return path.startswith(_STANDARD) or any(name in path for name in _INSTALLED)


def _shown(path: str) -> str:
    """A path as short as it can be: as it is from the directory of the process."""
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
