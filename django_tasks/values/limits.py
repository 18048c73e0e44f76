"""Limits of a code in the whole cluster: runs at once, and starts in a time. No Django.

The rate is kept by GCRA, the generic cell rate algorithm: as one number, the moment up to which all
starts have been given out (its "theoretical arrival time"). Starts are given out evenly. A bucket
that fills up while nothing happens would let through almost twice the rate in the time that
follows. Here no stretch of time as long as the rate's, wherever it begins, has more starts than the
rate allows.
"""

import re
from functools import lru_cache
from math import inf
from typing import NamedTuple

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import whole_number

SECOND = 1_000_000  # all times here are whole microseconds, since 1970 UTC where they are moments
PERIODS = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND}
MOST = 1_000_000  # a number of starts or runs beyond which a limit is a mistake
# As many as this time allows may start together: with a high rate nobody can look for each.
TOGETHER = SECOND // 20

# Clocks of workers differ a little: what one has given out may seem further ahead to another.
DOUBT = SECOND

_RATE = re.compile(r"([0-9]{1,7})/([smhd])", re.ASCII)


class Rate(NamedTuple):
    """``starts`` in ``period`` microseconds.

    ``together`` of them may come at once. The others are spread so that even with those no period
    has more than ``starts``: one after each ``period / spread``.
    """

    starts: int
    period: int

    @property
    def together(self) -> int:
        return max(1, self.starts * TOGETHER // self.period)

    @property
    def spread(self) -> int:
        return self.starts - self.together + 1

    def free(self, full_until: int, now: int) -> int:
        """The number of starts that are free at ``now``."""
        return self.together - _up(self._ahead(full_until, now) * self.spread, self.period)

    def after(self, full_until: int, now: int, started: int) -> int:
        """``full_until`` once ``started`` runs have started at ``now``."""
        return now + self._ahead(full_until, now) + _up(started * self.period, self.spread)

    def settled(self, full_until: int, now: int) -> int:
        """``full_until``, but never much further ahead than this rate can have given out.

        Else a clock that was set back, or a rate that has been raised from "1/d", would keep it
        closed for a day.
        """
        longest = self._longest
        return now + longest if full_until - now > longest + DOUBT else full_until

    def wait(self, full_until: int, now: int) -> int:
        """Microseconds until one may start."""
        room = (self.together - 1) * self.period // self.spread
        return max(0, self._ahead(full_until, now) - room)

    def _ahead(self, full_until: int, now: int) -> int:
        return min(max(0, full_until - now), self._longest)

    @property
    def _longest(self) -> int:
        """The longest time ahead for which it can have given out its starts."""
        return _up(self.together * self.period, self.spread)


class Opening(NamedTuple):
    """The number of starts that are free now; if none, the seconds until one is.

    Infinite: until a run has ended.
    """

    starts: int
    closed_for: float


class Limit(NamedTuple):
    """The limits of a code in the whole cluster; None: no such limit."""

    max_running: int | None
    rate: Rate | None

    def opening(self, running: int, full_until: int, now: int) -> Opening:
        """The opening of the gate while ``running`` runs are under way."""
        slots = MOST if self.max_running is None else self.max_running - running
        if slots <= 0:
            return Opening(0, inf)
        starts = MOST if self.rate is None else self.rate.free(full_until, now)
        if self.rate is not None and starts <= 0:
            return Opening(0, max(1, self.rate.wait(full_until, now)) / SECOND)
        return Opening(min(slots, starts), 0.0)

    def after(self, full_until: int, now: int, started: int) -> int:
        """``full_until`` once ``started`` runs have started at ``now``."""
        return full_until if self.rate is None else self.rate.after(full_until, now, started)

    def settled(self, full_until: int, now: int) -> int:
        """``full_until``, but no further ahead than this limit can have put it."""
        return full_until if self.rate is None else self.rate.settled(full_until, now)


NO_LIMIT = Limit(None, None)


def in_force(own: Limit | None, others: Limit | None) -> Limit:
    """The limits of a handler, those of an operator in place of its own of the same kind."""
    own, others = own or NO_LIMIT, others or NO_LIMIT
    return Limit(
        own.max_running if others.max_running is None else others.max_running,
        own.rate if others.rate is None else others.rate,
    )


def as_limit(max_running: int | None, rate_limit: str | None) -> Limit | None:
    """The limits that a handler's attributes, or an operator, set; None if they set none.

    Raises TaskTypeError or TaskValueError.
    """
    if max_running is None and rate_limit is None:
        return None
    return Limit(
        None if max_running is None else whole_number("max_running", max_running, 1, MOST),
        None if rate_limit is None else _rate(rate_limit),
    )


def _rate(value: object) -> Rate:
    if not isinstance(value, str):
        raise TaskTypeError("rate_limit", value, _('must be a text such as "100/m"'))
    return _parsed(value)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Rate:
    match = _RATE.fullmatch(text)
    if not match:
        problem = _('must be a number, a slash and one of s, m, h, d, as in "100/m"')
        raise TaskValueError("rate_limit", text, problem)
    count = int(match[1])
    if not 1 <= count <= MOST:
        raise TaskValueError(
            "rate_limit", text, _("must allow from 1 to %(most)s starts", most=MOST)
        )
    return Rate(count, PERIODS[match[2]])


def _up(value: int, divisor: int) -> int:
    return -(-value // divisor)
