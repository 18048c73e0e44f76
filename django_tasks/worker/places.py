"""The place where a coroutine waits, or an exception came, in words for a person."""

import os
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType
from typing import Any

# The standard library, and the directories of installed packages, which may be elsewhere.
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INSTALLED = "site-packages", "dist-packages"
_PACKAGE = str(Path(__file__).parent.parent) + os.sep

# A code, and the line that it has come to.
Line = tuple[CodeType, int]


def place_of(coroutine: Any) -> str:
    """The innermost line of the project's own code at which a suspended ``coroutine`` waits.

    As "shop/tasks.py:42 in handle"; the outermost line if none is the project's own, and "its end"
    for a coroutine that has ended.
    """
    return _place([(frame.f_code, frame.f_lineno) for frame in _frames(coroutine)])


def place_in(trace: TracebackType | None) -> str:
    """The same of a traceback that begins in the worker: the place at which the handler was."""
    lines = [(frame.f_code, number) for frame, number in walk_tb(trace)]
    while lines and lines[0][0].co_filename.startswith(_PACKAGE):
        lines.pop(0)
    return _place(lines)


def place_at(frame: FrameType | None) -> str:
    """The same of a thread of the worker, by its innermost frame."""
    lines: list[Line] = []
    while frame is not None:
        lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    worker = [number for number, (code, _) in enumerate(lines) if _is_ours(code)]
    # What the worker has called, from the outermost.
    return _place(lines[: min(worker, default=len(lines))][::-1])


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_PACKAGE)


def _place(lines: Sequence[Line]) -> str:
    if not lines:
        return "its end"
    own = [line for line in lines if not _is_library(line[0].co_filename)]
    code, number = own[-1] if own else lines[0]
    return f"{_shown(code.co_filename)}:{number} in {code.co_name}"


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
    return path.startswith((*_STANDARD, _PACKAGE)) or any(name in path for name in _INSTALLED)


def _shown(path: str) -> str:
    try:
        here = os.getcwd() + os.sep
    except OSError:  # somebody has removed it
        return path
    return path[len(here) :] if path.startswith(here) else path


def too_long(name: str, seconds: float, place: str) -> str:
    """The words of a timeout."""
    return f"{name} took longer than its timeout of {seconds:g} s (at {place})"
