"""Notes which places of the package have taken part in statements that the server has answered."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import pytest
from django.db.backends.utils import CursorWrapper
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import BaseExpression
from django.db.models.lookups import Lookup
from django.db.models.sql import Query
from django.db.models.sql.compiler import SQLCompiler

from tests.statements.places import LEFT_OUT, PACKAGE, SENDERS, Place


class Mark(NamedTuple):
    kind: str
    module: str
    line: int


class Watch:
    """Note what is asked meanwhile, in all threads. A statement that was refused does not count.

    A send was asked if its text was answered, a query if a statement was that was made from it. A
    condition was at least made there.
    """

    def __init__(self) -> None:
        self._marks: set[Mark] = set()
        self._texts: set[str] = set()
        self._at_work = threading.local()  # the marks of the query that is just asked

    def has_seen(self, place: Place) -> bool:
        if place.kind == "text":
            return any(map(place.stands_in, self._texts))
        return any(Mark(place.kind, place.module, line) in self._marks for line in place.lines)

    @contextmanager
    def __call__(self) -> Iterator["Watch"]:
        with pytest.MonkeyPatch.context() as patch:
            for owner, name, around in (
                (CursorWrapper, "_execute", self._sent),
                (CursorWrapper, "_executemany", self._sent),
                (QuerySet, "_chain", self._chained),
                (SQLCompiler, "execute_sql", self._asked),
                (Query, "get_compiler", self._compiled),
                (Query, "combine", self._combined),
                *((kind, "__init__", self._made) for kind in (Q, F, BaseExpression, Lookup)),
            ):
                real: Any = getattr(owner, name)
                patch.setattr(owner, name, _around(real, around))
            yield self

    def _sent(self, real: Any, cursor: Any, sql: str, *args: Any) -> Any:
        found = real(cursor, sql, *args)
        self._texts.add(sql)
        self._marks |= vars(self._at_work).get("marks", set())
        for place, frame in enumerate(_frames_of_ours()):
            if not place:
                self._marks.add(_mark("query", frame))
            self._marks.add(_mark("send", frame))
            if frame.f_code.co_name not in SENDERS:  # who called a sender has sent it, too
                break
        return found

    def _chained(self, real: Any, rows: Any, *args: Any) -> Any:
        """Have a query know where it was made: there, and where those were that it is made of."""
        other = real(rows, *args)
        here = {_mark("query", frame) for frame in _first(_frames_of_ours())}
        other.query.made_at = here | vars(rows.query).get("made_at", set())
        return other

    def _asked(self, real: Any, compiler: Any, *args: Any, **kwargs: Any) -> Any:
        before = vars(self._at_work).get("marks", set())
        self._at_work.marks = set(vars(compiler.query).get("made_at", ()))
        try:
            return real(compiler, *args, **kwargs)
        finally:
            self._at_work.marks = before

    def _compiled(self, real: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        """A query inside of the one that is asked."""
        vars(self._at_work).get("marks", set()).update(vars(query).get("made_at", ()))
        return real(query, *args, **kwargs)

    def _combined(self, real: Any, query: Any, other: Any, *args: Any) -> None:
        query.made_at = vars(query).get("made_at", set()) | vars(other).get("made_at", set())
        real(query, other, *args)

    def _made(self, real: Any, condition: Any, *args: Any, **kwargs: Any) -> None:
        self._marks |= {_mark("condition", frame) for frame in _first(_frames_of_ours())}
        real(condition, *args, **kwargs)


def _around(real: Any, function: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(real, *args, **kwargs)


def _frames_of_ours() -> Iterator[FrameType]:
    """The frames of the package's own code, from the innermost outwards."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_OURS) and not name.startswith(_NOT_OURS):
            yield frame
        frame = frame.f_back


def _first(frames: Iterator[FrameType]) -> list[FrameType]:
    return [frame for frame in [next(frames, None)] if frame]


_OURS = f"{PACKAGE}/"
_NOT_OURS = tuple(f"{PACKAGE}/{folder}" for folder in LEFT_OUT)


def _mark(kind: str, frame: FrameType) -> Mark:
    return Mark(kind, frame.f_code.co_filename.removeprefix(_OURS), frame.f_lineno)
