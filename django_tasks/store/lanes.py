"""Find where tasks wait. Plain reads: nothing is decided from them, a claim decides.

A lane is one queue, one priority and one code.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django_tasks.store.dialects import Dialect, dialect_of
from django_tasks.store.pauses import Scope
from django_tasks.values.status import Status

# From this many rescues on, a row is claimed alone: twice its worker died with it.
SUSPICIOUS_RESCUES = 2


class Lane(NamedTuple):
    """Pending tasks that wait together, and when the first of them is due (aware UTC)."""

    queue: str
    priority: int
    biz_code: str
    first: datetime


class Place(NamedTuple):
    """A place in the order of a lane: a time (aware UTC), and an id among equal times."""

    when: datetime
    id: int


class Look(NamedTuple):
    """Lanes, and what is paused."""

    lanes: list[Lane]
    pauses: frozenset[Scope]

    def is_paused(self, queue: str, biz_code: str) -> bool:
        # Not each pause in turn: two thousand of as many lanes took half a second. A plain tuple
        # equals its Scope.
        pauses = self.pauses
        return bool(pauses) and (
            (queue, biz_code) in pauses
            or (queue, "") in pauses
            or ("", biz_code) in pauses
            or ("", "") in pauses
        )

    def free(self) -> list[Lane]:
        """The lanes that are not paused as a whole."""
        if not self.pauses:
            return self.lanes
        return [lane for lane in self.lanes if not self.is_paused(lane.queue, lane.biz_code)]


# One seek of the claim index a lane, however many rows wait in it. MySQL and MariaDB have the
# loose index scan built in ("Using index for group-by"). Elsewhere a recursive query hops from
# lane to lane. PostgreSQL seeks the next one by a comparison of all three columns at once. SQLite
# would use the index for the first of them only (590 ms instead of 0.12 with 250,000 rows): it asks
# for the next code of the same queue and priority, or the next priority of the same queue, or the
# next queue. It has no LATERAL: each hop finds the id of a row, whose columns are looked up one by
# one.
# What is paused comes along, without a priority: a statement of its own would be one more a second
# in every idle worker.
_AND_PAUSES = """
UNION ALL SELECT queue, NULL, biz_code, NULL FROM {pause}"""
_GROUPED_LANES = f"""
SELECT queue, priority, biz_code, {{first}} FROM {{task}}
WHERE status = 0 GROUP BY status, queue, priority, biz_code{_AND_PAUSES}"""
_SOUGHT_LANES = f"""
WITH RECURSIVE head(queue, priority, biz_code, moment, hops) AS (
    (SELECT queue, priority, biz_code, {{when}}, 0 FROM {{task}} WHERE status = 0
     ORDER BY queue, priority, biz_code, {{when}} LIMIT 1)
  UNION ALL SELECT later.* FROM head, LATERAL ({{later}}) AS later WHERE head.hops IS NOT NULL
) SELECT queue, priority, biz_code, {{first}} FROM head{_AND_PAUSES}"""
_LATER = """
SELECT queue, priority, biz_code, {when}, head.hops - 1 AS hops FROM {task} AS t WHERE status = 0
   AND (t.queue, t.priority, t.biz_code) > (head.queue, head.priority, head.biz_code)
ORDER BY t.queue, t.priority, t.biz_code, t.{when} LIMIT"""
# Each seek of PostgreSQL reads a page of the index to its end. After a look that has found so many
# lanes one seek takes 16 entries, and the next begins behind the last of their lanes: 7 ms instead
# of 14 for 2,000 lanes of one row. If they are of less than four lanes, the next 64 seeks only hop;
# if they are fewer, there is no next one: it would pass all deleted rows at the end once more.
MANY_LANES = 300
_LEAP = f"""
SELECT * FROM ({_LATER} 1) AS hop WHERE head.hops > 0 UNION ALL SELECT * FROM (
    SELECT queue, priority, biz_code, moment, CASE WHEN SUM(entries) OVER along = 16
        THEN CASE WHEN COUNT(*) OVER along < 4 THEN 64 ELSE 0 END END
    FROM (SELECT queue, priority, biz_code, MIN({{when}}) AS moment, COUNT(*)::int AS entries
          FROM ({_LATER} 16) AS seek GROUP BY queue, priority, biz_code) AS firsts
    WINDOW along AS (ORDER BY queue, priority, biz_code)) AS leap WHERE head.hops = 0"""
_HOPPED_LANES = f"""
WITH RECURSIVE head(id) AS (
    SELECT (SELECT id FROM {{task}} WHERE status = 0
            ORDER BY queue, priority, biz_code, {{when}} LIMIT 1)
  UNION ALL
    SELECT COALESCE(
        (SELECT id FROM {{task}} AS t WHERE t.status = 0 AND t.queue = here.queue
            AND t.priority = here.priority AND t.biz_code > here.biz_code
         ORDER BY t.biz_code, t.{{when}} LIMIT 1),
        (SELECT id FROM {{task}} AS t WHERE t.status = 0 AND t.queue = here.queue
            AND t.priority > here.priority
         ORDER BY t.priority, t.biz_code, t.{{when}} LIMIT 1),
        (SELECT id FROM {{task}} AS t WHERE t.status = 0 AND t.queue > here.queue
         ORDER BY t.queue, t.priority, t.biz_code, t.{{when}} LIMIT 1))
    FROM head CROSS JOIN {{task}} AS here WHERE here.id = head.id
)
SELECT queue, priority, biz_code, {{first}}
FROM head CROSS JOIN {{task}} AS t WHERE t.id = head.id{_AND_PAUSES}"""

_OF_LANE = "status = 0 AND queue = %s AND priority = %s AND biz_code = %s"
DUE = f"{_OF_LANE} AND {{when}} <= %s"


def look(*, using: str) -> Look:
    """Every lane that has pending tasks and is not paused, unknown codes included; and the pauses.

    In the order to claim them: higher priorities first, then the longest wait.
    """
    return _startable(look_everywhere(using=using))


def every_lane(status: Status = Status.PENDING, *, using: str) -> list[Lane]:
    """Every lane that has tasks of a status, paused as a whole or not, in no order."""
    return look_everywhere(status, using=using).lanes


def look_everywhere(status: Status = Status.PENDING, *, using: str) -> Look:
    """The same with the pauses, by the same statement."""
    dialect = dialect_of(using)
    if dialect.groups_along_index:
        template, first = _GROUPED_LANES, "MIN({when})"
    elif dialect.has_lateral:
        later = _LEAP if dialect.has_many_lanes else f"{_LATER} 1"
        template, first = _SOUGHT_LANES.replace("{later}", later), "moment"
    else:
        template, first = _HOPPED_LANES, "{when}"
    template = template.replace("{first}", dialect.readable(first))
    found = _look_of(dialect, dialect.fetch(template.replace("status = 0", f"status = {status:d}")))
    dialect.has_many_lanes = len(found.lanes) >= MANY_LANES
    return found


def _look_of(dialect: Dialect, found: Sequence[tuple[Any, ...]]) -> Look:
    """The look of rows: queue, priority, code, first. The row of a pause has no priority."""
    moment = dialect.from_column
    lanes = [
        Lane(queue, priority, code, moment(first))
        for queue, priority, code, first in found
        if priority is not None
    ]
    pauses = (Scope(queue, code) for queue, priority, code, _ in found if priority is None)
    return Look(lanes, frozenset(pauses))


def _startable(look: Look) -> Look:
    return look._replace(lanes=in_order(look.free()))


def in_order(lanes: Iterable[Lane]) -> list[Lane]:
    """Lanes in the order to claim them: higher priorities first, then the longest wait."""
    return sorted(lanes, key=lambda lane: (-lane.priority, lane.first))


# So many lanes one statement asks for, or claims from: to plan it takes PostgreSQL the square of
# their number, and SQLite takes 500 at most.
LANES_AT_ONCE = 20


def look_along(
    places: Mapping[tuple[str, int, str], Place | None], *, using: str, with_pauses: bool = True
) -> Look:
    """The same for these lanes alone, of each from its place on; None: from its start.

    Each costs a seek, and nothing that lies before its place. There are ``LANES_AT_ONCE`` at most.
    Without pauses there is one at least, and those that are paused are among what is found.
    """
    dialect = dialect_of(using)
    selects = ["SELECT queue, NULL, biz_code, NULL FROM {pause}"] if with_pauses else []
    params: list[Any] = []
    for number, (key, place) in enumerate(places.items()):
        since, behind = dialect.since(*place) if place else ("1 = 1", [])
        selects.append(
            f"SELECT '', {number}, '', (SELECT{dialect.by_lane} {dialect.readable('{when}')}"
            f" FROM {{task}} WHERE {_OF_LANE} AND {since} ORDER BY {{when}}, id LIMIT 1)"
        )
        params += [*key, *behind]
    keys = list(places)
    found = dialect.fetch(" UNION ALL ".join(selects), params)
    rows = [
        (*((queue, None, code) if number is None else keys[number]), first)
        for queue, number, code, first in found
        if number is None or first is not None
    ]
    return _startable(_look_of(dialect, rows))


# Such rows were claimed before, so they stand near the head of their lane. The look is bounded:
# it must not walk a million due rows.
SUSPECTS_WINDOW = 1000


def has_suspects(lane: Lane, now: datetime, *, using: str, since: Place | None = None) -> bool:
    """Tell if a due task near the head of ``lane``, from ``since`` on, was rescued twice."""
    dialect = dialect_of(using)
    condition, params = DUE, due_params(dialect, lane, now)
    if since is not None:
        behind, place = dialect.since(*since)
        condition, params = f"{DUE} AND {behind}", [*params, *place]
    template = (
        f"SELECT 1 FROM (SELECT{dialect.by_lane} rescues FROM {{task}} WHERE {condition}"
        " ORDER BY {when}, id LIMIT %s)"
        f" AS head WHERE rescues >= {SUSPICIOUS_RESCUES} LIMIT 1"
    )
    return bool(dialect.fetch(template, [*params, SUSPECTS_WINDOW]))


def next_due(lane: Lane, now: datetime, *, using: str) -> datetime | None:
    """The earliest time in ``lane`` that is later than ``now``, aware UTC, or None."""
    dialect = dialect_of(using)
    template = (
        f"SELECT{dialect.by_lane} {dialect.readable('{when}')} FROM {{task}}"
        f" WHERE {_OF_LANE} AND {{when}} > %s ORDER BY {{when}}, id LIMIT 1"
    )
    rows = dialect.fetch(template, due_params(dialect, lane, now))
    return dialect.from_column(rows[0][0]) if rows else None


# A count that is shown, not decided by: it must not walk a million rows either.
COUNTED = 1000


def count_due(lane: Lane, now: datetime, *, using: str) -> str:
    """The number of due tasks of ``lane``, for people: exact up to 1,000, then "more than"."""
    dialect = dialect_of(using)
    head = f"SELECT{dialect.by_lane} 1 FROM {{task}} WHERE {DUE} LIMIT %s"
    template = f"SELECT COUNT(*) FROM ({head}) AS head"
    ((count,),) = dialect.fetch(template, [*due_params(dialect, lane, now), COUNTED + 1])
    return str(count) if count <= COUNTED else f"more than {COUNTED}"


def due_params(dialect: Dialect, lane: Lane, now: datetime) -> list[Any]:
    return [lane.queue, lane.priority, lane.biz_code, dialect.to_column(now)]
