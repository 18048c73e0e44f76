"""The statements of a handler: counted, and the death of its process after one of them."""

import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

from django.db import connections

from django_tasks.testing.autocommit import BLOCK_STATEMENTS, Autocommit

_OURS = str(Path(__file__).parents[1])
_PYTHONS = sysconfig.get_paths()["stdlib"]
_READS = ("SELECT", "EXPLAIN", "PRAGMA", "SHOW")
_LONGEST = 100


class Killed(BaseException):
    """Stands for the death of a process."""


class Statement(NamedTuple):
    """One statement of a handler. ``place`` is file and line; ``mails`` were sent before it."""

    sql: str
    place: str
    mails: int

    @property
    def is_read(self) -> bool:
        return self.sql.lstrip("( ").upper().startswith(_READS)

    def __str__(self) -> str:
        text = " ".join(self.sql.split())
        text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        return f"{text} ({self.place})" if self.place else text


class Point(NamedTuple):
    """A moment of a run: before or after a statement, which count from 1, or at the end."""

    side: Literal["before", "after", "at the end"]
    number: int = 0


class Watch:
    """Watches the statements of one call of a handler, on some databases.

    At the point ``death`` it raises Killed, and again in each statement that follows: a dead
    process sends none. After the statement number ``middle``, 0 is the beginning, it calls ``act``.
    """

    def __init__(
        self,
        aliases: Sequence[str],
        mails: Callable[[], int],
        death: Point | None = None,
        middle: int = 0,
        act: Callable[[], None] | None = None,
    ) -> None:
        self.statements: list[Statement] = []
        self.mails_at_death = 0
        self.is_dead = False
        # The handler has caught Killed and returned all the same.
        self.was_swallowed = False
        self.autocommit: Autocommit | None = None
        self._aliases = aliases
        self._mails = mails
        self._death = death
        self._middle = middle
        self._act = act
        self._is_on = False
        self._rolled_back = False
        # The place of a coroutine, whose frames are not on this stack; empty if there is none.
        self.place_in_loop: Callable[[], str] = str

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The context of the call."""
        with ExitStack() as stack:
            for alias in self._aliases:
                stack.enter_context(connections[alias].execute_wrapper(self._execute))
            self._is_on = True
            try:
                self._act_if_due(0)
                yield
                self._act_if_due(self._middle)
                if self._death is not None and self._death.side == "at the end":
                    self._die()
            finally:
                self._is_on = False

    def _execute(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        if not self._is_on or (self._is_of_block(sql) and not self._commits(sql, context)):
            return execute(sql, params, many, context)
        if self.is_dead:
            raise Killed
        text = "COMMIT" if self._is_of_block(sql) else sql
        self._act_if_due(len(self.statements))
        self.statements.append(Statement(text, self._place(), self._mails()))
        number = len(self.statements)
        if self._death == ("before", number):
            self._die()
        result = execute(sql, params, many, context)
        if self._death == ("after", number):
            self._die()
        return result

    def _act_if_due(self, number: int) -> None:
        """Call ``act`` if as many statements have been made.

        Not right after one: on SQLite its rows are still to be read, and no block can begin.
        """
        if self._act is not None and number == self._middle:
            act, self._act = self._act, None
            self._is_on = False
            try:
                act()
            finally:
                self._is_on = True

    def _place(self) -> str:
        return self.place_in_loop() or _place()

    def _die(self) -> None:
        self.is_dead = True
        self.mails_at_death = self._mails()
        raise Killed

    def _is_of_block(self, sql: str) -> bool:
        return sql.startswith(BLOCK_STATEMENTS)

    def _commits(self, sql: str, context: Any) -> bool:
        """Tell if a statement ends the outermost block of the handler, and well.

        Django releases a savepoint also after a rollback to it.
        """
        was_rolled_back, self._rolled_back = self._rolled_back, sql.startswith("ROLLBACK")
        if not sql.startswith("RELEASE") or was_rolled_back or self.is_dead:
            return False
        kept = self.autocommit
        return kept is not None and kept.is_outside_blocks(context["connection"])


def _place() -> str:
    """File and line of the innermost code of the project; empty if there is none on the stack."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name = frame.f_code.co_filename
        is_foreign = "site-packages" in name or name.startswith((_OURS, _PYTHONS, "<"))
        if not is_foreign:
            return f"{_short(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _short(name: str) -> str:
    path = Path(name)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else name


def points_of(statements: Sequence[Statement], mails: int) -> list[Point]:
    """The moments at which a death of this run makes a difference.

    After a read nothing has changed; before a statement only a mail can have been sent since the
    one before it. ``mails`` were sent before the first.
    """
    points = []
    for number, statement in enumerate(statements, 1):
        if statement.mails != mails:
            points.append(Point("before", number))
        mails = statement.mails
        if not statement.is_read:
            points.append(Point("after", number))
    return [*points, Point("at the end")]
