"""Journals what the database answered to a worker: heartbeats, ends, rescues, stops.

The product says by a signal that an end was refused, and nothing when one was accepted; the
checker needs both, and to know of runs that were given up. The wrappers observe and change nothing.
Of an ``atomic`` run, which writes its own end, the rows of its effects tell.
"""

from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import Any

from django_tasks import signals
from django_tasks.store.finish import Ended
from django_tasks.values.outcomes import Unsettled
from django_tasks.worker import execution, finisher, worker
from django_tasks.worker.membership import Membership
from django_tasks.worker.poller import Poller
from django_tasks.worker.rescuer import Rescuer
from django_tasks.worker.worker import Worker
from tests.faults import journal

# The name under which a rescuer keeps when it has judged last, and under which id.
JUDGED = "_faults_judged"


def install() -> None:
    """Watch the workers of this process."""
    _wrap(finisher, "finish", _watched_finish)
    _wrap(worker, "finish", _watched_finish)
    _wrap(worker, "forgive", watched_forgive)
    _wrap(Poller, "give_up", _watched_give_up)
    _wrap(Poller, "last_ends", _watched_last_ends)
    _wrap(Worker, "_give_up", _watched_condemn)
    _wrap(execution, "run_apart", _watched_apart)
    _wrap(Membership, "beat", _watched_beat)
    _wrap(Membership, "join", _watched_join)
    _wrap(Rescuer, "look", _watched_look)
    _wrap(Rescuer, "rescue_some", _watched_rescue)
    signals.task_lost.connect(_lost, dispatch_uid="tests.faults")
    signals.task_rescued.connect(_rescued, dispatch_uid="tests.faults")
    signals.task_failed.connect(_failed, dispatch_uid="tests.faults")
    signals.task_missed.connect(_missed, dispatch_uid="tests.faults")


def _wrap(owner: Any, name: str, watched: Callable[[Any], Any]) -> None:
    setattr(owner, name, watched(getattr(owner, name)))


def _watched_finish(finish: Any) -> Any:
    def watched(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        try:
            result = finish(ended, *args, **kwargs)
        except BaseException as error:
            _journal_ends([(end, "unknown") for end in ended], type(error).__name__)
            raise
        _journal_ends([(end, _verdict(end.claimed.id, result)) for end in ended])
        return result

    return watched


def _verdict(row: int, result: Any) -> str:
    for name in ("handed_over", "lost", "locked"):
        if row in getattr(result, name):
            return name
    return "accepted"


def _journal_ends(ends: list[tuple[Ended, str]], error: str = "") -> None:
    facts = [
        (end.claimed.id, end.claimed.version, end.claimed.worker_id, _name(end.outcome), verdict)
        for end, verdict in ends
    ]
    journal.write("finish", ends=facts, error=error)


def _name(outcome: Any) -> str:
    name = type(outcome).__name__
    return f"{name} {_name(outcome.otherwise)}" if isinstance(outcome, Unsettled) else name


def watched_forgive(forgive: Any) -> Any:
    """Note if a worker that stops could say so in its rows: it has two seconds for it."""

    def watched(worker_id: int, guilty: Collection[int] = (), **kwargs: Any) -> int:
        journal.write("forgiving")
        count: int = forgive(worker_id, guilty, **kwargs)
        journal.write("forgiven", worker=worker_id, guilty=list(guilty))
        return count

    return watched


def _watched_give_up(give_up: Any) -> Any:
    def watched(poller: Any, ends: Sequence[Ended]) -> None:
        journal.write("given_up", claims=_claims(ends))
        give_up(poller, ends)

    return watched


def _watched_last_ends(last_ends: Any) -> Any:
    def watched(poller: Any, *args: Any) -> list[Ended]:
        ends: list[Ended] = last_ends(poller, *args)
        if ends:
            journal.write("last_act", claims=_claims(ends))
        return ends

    return watched


def _claims(ends: Sequence[Ended]) -> list[tuple[int, int, int]]:
    return [(end.claimed.id, end.claimed.version, end.claimed.worker_id) for end in ends]


def _watched_apart(run_apart: Any) -> Any:
    def watched(
        claimed: Any, worker_id: int, name: str, may_start: Callable[[], bool], **kwargs: Any
    ) -> Any:
        since = monotonic()

        def is_ready() -> bool:
            journal.write("apart", row=claimed.id, worker=worker_id, **{"from": since})
            return may_start()

        return run_apart(claimed, worker_id, name, is_ready, **kwargs)

    return watched


def _watched_condemn(give_up: Any) -> Any:
    """Note that a run without end costs this process."""

    def watched(worker: Any, kill: Any, runs: Any, error: Any) -> None:
        journal.write("condemned", rows=[run.claimed.id for run in runs], error=str(error))
        give_up(worker, kill, runs, error)

    return watched


def _watched_beat(beat: Any) -> Any:
    def watched(member: Any, *args: Any) -> bool:
        asked = monotonic()
        renewed: bool = beat(member, *args)
        journal.write("beat", worker=member.worker_id, asked=asked, renewed=renewed)
        return renewed

    return watched


def _watched_join(join: Any) -> Any:
    def watched(member: Any) -> int:
        asked = monotonic()
        worker_id: int = join(member)
        journal.write("beat", worker=worker_id, asked=asked, renewed=True)
        return worker_id

    return watched


def _watched_look(look: Any) -> Any:
    """Note when a worker judges the others, and under which id.

    A worker that stands still in the middle of a rescue has a gap in its heartbeats when the rows
    are free, or another id. It had neither when it judged. What it goes on with is fenced: the dead
    worker's row has gone, and that is asked again in the transaction which frees the rows.
    """

    def watched(rescuer: Any, *, thorough: bool) -> None:
        membership = rescuer._membership
        view = membership.view
        if view.look is not None and membership.may_rescue():
            judged = {"at": moment(view.look.answered), "worker": membership.worker_id}
            setattr(rescuer, JUDGED, judged)
        look(rescuer, thorough=thorough)

    return watched


def moment(ticks: float) -> float:
    """The journal's time of what a worker's monotonic clock shows: here both are one clock."""
    return ticks


def _watched_rescue(rescue_some: Any) -> Any:
    def watched(rescuer: Any) -> int:
        freed: int = rescue_some(rescuer)
        if freed:
            unjudged = {"worker": rescuer._membership.worker_id}
            journal.write("rescue", count=freed, **getattr(rescuer, JUDGED, unjudged))
        return freed

    return watched


def _lost(*, task: Any, **_: Any) -> None:
    journal.write("lost", id=task.id, version=task.version, worker=task.worker_id)


def _rescued(*, worker_id: int, count: int, **_: Any) -> None:
    journal.write("rescued", worker=worker_id, count=count)


def _missed(*, sender: Any, task: Any, lateness: float, action: str, **_: Any) -> None:
    """A run that begins too late. Of times of a schedule that are left out nothing is asked."""
    grace = sender.misfire_grace_time
    if grace is not None and action in ("run", "skip", "fail"):
        facts = {"id": task.id, "code": task.biz_code, "queue": task.queue, "grace": grace}
        when = task.when.timestamp()
        journal.write("misfire", **facts, when=when, lateness=lateness, action=action)


def _failed(*, task: Any, **_: Any) -> None:
    journal.write("failed", id=task.id, version=task.version)
