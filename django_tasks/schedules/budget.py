"""One budget of steps for all that a text makes a schedule do: bounds of parts would multiply."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from django_tasks.exceptions import TaskValueError
from django_tasks.sentences import sentence as _

# A step is some ten microseconds: a time of an exact interval is one, of a cron five to eight.
MOST_STEPS = 8_000


class TooManySteps(Exception):
    """The budget is used up."""


@dataclass
class Budget:
    """The steps that were taken, and how many may be; None: as many as it needs."""

    most: int | None
    taken: int = 0
    known: set[object] = field(default_factory=set)


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(shown: object) -> Iterator[None]:
    """Have ``MOST_STEPS`` for all that the block asks, or what the outermost block has left.

    Raises TaskValueError, of the schedule that ``shown`` prints, where that is not enough.
    """
    if _BUDGET.get() is not None:
        yield
        return
    try:
        with _within(Budget(MOST_STEPS)):
            yield
    except TooManySteps:
        raise TaskValueError(
            "schedule",
            str(shown),
            _(
                "takes more than %(most)s steps to work out: have fewer parts, a smaller count, "
                "or an end instead",
                most=f"{MOST_STEPS:,}",
            ),
        ) from None


def unlimited() -> AbstractContextManager[Budget]:
    """Let the block take as many steps as it needs: a row that is there runs."""
    return _within(Budget(None))


def apart() -> AbstractContextManager[Budget]:
    """Count the steps of the block alone, no more than are left; they are not taken here yet."""
    there = _BUDGET.get()
    if there is None or there.most is None:
        return unlimited()
    return _within(Budget(there.most - there.taken))


@contextmanager
def _within(there: Budget) -> Iterator[Budget]:
    token = _BUDGET.set(there)
    try:
        yield there
    finally:
        _BUDGET.reset(token)


def is_limited() -> bool:
    """Tell if steps are counted: of a new schedule all is asked at once that a run will ask."""
    there = _BUDGET.get()
    return there is not None and there.most is not None


def step(number: int = 1) -> None:
    """Use up steps of the budget, if there is one. Raises TooManySteps if it has not so many."""
    there = _BUDGET.get()
    if there is None:
        return
    there.taken += number
    if there.most is not None and there.taken > there.most:
        raise TooManySteps


def step_once(what: object, number: int) -> None:
    """Use up the steps of what a cache knows, the first time that the budget meets it.

    They are the same whatever was asked of this process before.
    """
    there = _BUDGET.get()
    if there is not None and there.most is not None and what not in there.known:
        there.known.add(what)
        step(number)
