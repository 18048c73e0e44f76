"""Puts each rescue down to the look at the workers by which it was decided: its time, its worker.

The fault suite notes a rescue when its rows are free. A worker that stands still in the middle of
one has a gap in its heartbeats by then, or another id, and had none when it judged. What it goes
on with is fenced: the dead worker's row has gone, and that is asked again in the transaction which
frees the rows.
"""

from typing import Any

from django_tasks.worker.rescuer import Rescuer
from tests.explore import stage
from tests.explore.hosts import current

# The name under which a rescuer keeps when it has judged last, and under which id.
JUDGED = "_explore_judged"


def install() -> None:
    """Watch the rescuers of this process. Call when the fault suite watches them already."""
    look, rescue_some = Rescuer.look, Rescuer.rescue_some

    def watched_look(rescuer: Rescuer, *, thorough: bool) -> None:
        membership = rescuer._membership
        view = membership.view
        if view.look is not None and membership.may_rescue():
            judged = {"at": current().host.simulated(view.look.answered)}
            setattr(rescuer, JUDGED, judged | {"worker": membership.worker_id})
        look(rescuer, thorough=thorough)

    def watched_rescue(rescuer: Rescuer) -> int:
        before = len(stage.journal.records)
        freed = rescue_some(rescuer)
        for record in stage.journal.records[before:]:
            if record["kind"] == "rescue" and record["pid"] == current().host.pid:
                record.update(getattr(rescuer, JUDGED, {}))
        return freed

    _set("look", watched_look)
    _set("rescue_some", watched_rescue)


def _set(name: str, watched: Any) -> None:
    setattr(Rescuer, name, watched)
