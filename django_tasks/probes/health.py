"""The judgement about a ``starttask``, from the signs of life of its processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, gettext_lazy, ngettext

from django_tasks.probes.board import ProbeSigns, Sign
from django_tasks.worker.condition import Condition

# The longest silence of the process that watches the others. It looks up twice a second, but may
# wait a second for each line of the log, and for pools of connections that close before a fork.
WATCHER_PATIENCE = 15.0
# The shortest patience with a main loop: a busy host may leave it no time for more than a short
# lease.
LEAST_PATIENCE = 5.0

# Of workers that claim nothing on a database, what is said first.
_REASONS = {
    Condition.WITHOUT_DATABASE: gettext_lazy(
        "Database %(alias)s does not answer, or cannot be worked with."
    ),
    Condition.STARTING: gettext_lazy("The workers on %(alias)s are starting."),
    Condition.STOPPING: gettext_lazy("The workers on %(alias)s are stopping."),
    Condition.ENDED: gettext_lazy("No worker on %(alias)s is there."),
}
_WELL = (Condition.WORKING, Condition.QUIET)


@dataclass(frozen=True, slots=True)
class Health:
    """``live``: a restart would not help. ``ready``: there is a worker that claims, or would if
    nobody had asked it to be quiet, on each database. ``reason`` is a sentence for people.
    """

    live: bool
    ready: bool
    state: Condition
    reason: str

    def document(self, facts: "ProbeFacts", signs: ProbeSigns) -> dict[str, Any]:
        """The health for programs, in plain values."""
        return {
            "live": self.live,
            "ready": self.ready,
            "state": self.state.code,
            "reason": self.reason,
            "databases": {
                alias: _first(signs, place).code for place, alias in enumerate(facts.databases)
            },
            "processes": [
                dict(zip(facts.databases, (each.code for each in sign.conditions), strict=True))
                for sign in signs.processes
            ],
        }


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """The databases of each process, and the longest silence of a main loop, in seconds."""

    databases: tuple[str, ...]
    patience: float


def facts(databases: Sequence[str], lease: float) -> ProbeFacts:
    """The facts about workers with this ``lease``."""
    return ProbeFacts(tuple(databases), max(LEAST_PATIENCE, lease))


def judge_here(conditions: Mapping[str, Condition], now: float) -> Health:
    """Judge by the condition of each worker of this process, by its database."""
    if not conditions:
        reason = gettext("No worker runs in this process.")
        return Health(True, False, Condition.ENDED, reason)
    watching, here = Sign(now, (Condition.WORKING,)), Sign(now, tuple(conditions.values()))
    return judge(ProbeSigns(watching, (here,)), facts(tuple(conditions), lease=0.0), now)


def judge(signs: ProbeSigns, facts: ProbeFacts, now: float) -> Health:
    """Judge by ``signs`` that were read at ``now``, by the clock of the host."""
    if now - signs.watching.moment > WATCHER_PATIENCE:
        reason = gettext(
            "The supervisor has given no sign of life for more than %(seconds)d seconds."
        ) % {"seconds": WATCHER_PATIENCE}
        return Health(False, False, Condition.HANGING, reason)
    if signs.watching.conditions[0] is Condition.STOPPING:
        reason = gettext("Stopping: nothing more is claimed, and what runs may end.")
        return Health(True, False, Condition.STOPPING, reason)
    return _hanging(signs, facts, now) or _idle(signs, facts) or _well(signs)


def _hanging(signs: ProbeSigns, facts: ProbeFacts, now: float) -> Health | None:
    for number, sign in enumerate(signs.processes, 1):
        if sign.is_there and now - sign.moment > facts.patience:
            # Not for how long: a reason that is another one each second would be told each second.
            reason = gettext(
                "Process %(number)d has given no sign of life for more than %(seconds)d seconds."
            ) % {"number": number, "seconds": facts.patience}
            return Health(False, False, Condition.HANGING, reason)
        if Condition.HANGING in sign.conditions:
            alias = facts.databases[sign.conditions.index(Condition.HANGING)]
            reason = gettext("The poller of process %(number)d on %(alias)s hangs.") % {
                "number": number,
                "alias": alias,
            }
            return Health(False, False, Condition.HANGING, reason)
    return None


def _idle(signs: ProbeSigns, facts: ProbeFacts) -> Health | None:
    for place, alias in enumerate(facts.databases):
        condition = _first(signs, place)
        if condition not in _WELL:
            return Health(True, False, condition, _REASONS[condition] % {"alias": alias})
    return None


def _first(signs: ProbeSigns, place: int) -> Condition:
    """The condition of a database: of its workers, the first one that is worth to be told."""
    found = {sign.conditions[place] for sign in signs.processes}
    order = (Condition.HANGING, *_WELL, *_REASONS)
    return next(condition for condition in order if condition in found)


def _well(signs: ProbeSigns) -> Health:
    working = sum(Condition.WORKING in sign.conditions for sign in signs.processes)
    if not working:
        reason = gettext("The workers were asked to claim nothing, and are well.")
        return Health(True, True, Condition.QUIET, reason)
    reason = ngettext("%(count)d process works.", "%(count)d processes work.", working)
    return Health(True, True, Condition.WORKING, reason % {"count": working})
