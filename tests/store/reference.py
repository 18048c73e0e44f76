"""The row protocol of the store in plain Python: what every database must do, one row at a time.

Each method is one arrow of the protocol. Nothing here looks at the store's code; times are seconds,
payloads any value.
"""

from dataclasses import dataclass, field, replace

from django_tasks.values.status import Status

PENDING, RUNNING, FAILED, PAUSED, CANCELLING, PAUSING = Status
OWNED = {RUNNING, CANCELLING, PAUSING}
ENDED = {RUNNING: PENDING, PAUSING: PAUSED}
REVIVED = {FAILED: PENDING, CANCELLING: RUNNING}
UNPAUSED = {PAUSED: PENDING, PAUSING: RUNNING}
DIED = "died"


@dataclass
class Row:
    id: int
    when: float
    biz_ext: object
    queue: str
    priority: int
    status: Status = PENDING
    version: int = 0
    attempts: int = 0
    rescues: int = 0
    claimed_by: int | None = None
    claim_second: float | None = None
    last_error: str = ""
    schedule: str | None = None
    # Two times with one meaning each: of the waiting run, and of a debounced task's patience.
    scheduled: float | None = None
    latest: float | None = None

    @property
    def owned(self) -> bool:
        return self.status in OWNED

    @property
    def intended(self) -> float:
        return self.when if self.scheduled is None else self.scheduled

    def forget_failures(self) -> None:
        self.attempts, self.rescues, self.last_error = 0, 0, ""

    def wait_until(self, when: float, scheduled: float | None = None) -> None:
        self.when, self.scheduled, self.latest = when, scheduled, None

    def leave_owner(self) -> None:
        self.status = ENDED.get(self.status, self.status)
        self.claimed_by = self.claim_second = None
        self.version += 1


@dataclass(frozen=True)
class Claim:
    """A worker's knowledge of its row."""

    id: int
    version: int
    owner: int
    second: float
    # For which time the run is.
    intended: float | None = None


@dataclass
class Reference:
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    def copy_of(self, key: tuple[str, str]) -> Row | None:
        return replace(self.rows[key]) if key in self.rows else None

    def by_id(self, number: int) -> tuple[tuple[str, str], Row] | tuple[None, None]:
        for key, row in self.rows.items():
            if row.id == number:
                return key, row
        return None, None

    # Clients

    def would_move(self, key, mode: str, when: float) -> bool:
        row = self.rows.get(key)
        if row is None or mode == "replace" or row.status == CANCELLING:
            return True
        return mode == "earliest" and when < row.when

    def add(
        self, key, mode: str, when: float, biz_ext, queue: str, priority: int, schedule=None
    ) -> bool:
        """Tell if it was inserted or moved. A new row has the id 0 until the caller sets it."""
        if not self.would_move(key, mode, when):
            return False
        row = self.rows.get(key)
        if row is None:
            self.rows[key] = Row(0, when, biz_ext, queue, priority, schedule=schedule)
            return True
        row.biz_ext, row.queue, row.priority, row.schedule = biz_ext, queue, priority, schedule
        self._move(row, when)
        return True

    def debounce(self, key, now: float, wait: int, at_most: int | None, *added) -> None:
        """An add that waits for ``wait``, and no longer than ``at_most`` after the first one."""
        row, when = self.rows.get(key), now + wait
        latest = None if at_most is None else now + at_most
        if row is not None and row.status != CANCELLING and not self._has_begun(row):
            if row.status != FAILED and row.latest is not None:
                latest = row.latest
            if latest is not None:
                when = max(now, min(when, latest))
        self.add(key, "replace", when, *added)
        self.rows[key].latest = latest

    def _has_begun(self, row: Row) -> bool:
        """Tell if all that was added to it runs now."""
        if not row.owned:
            return False
        assert row.claim_second is not None
        return row.when <= row.claim_second

    def _move(self, row: Row, when: float, scheduled: float | None = None) -> None:
        if not row.owned:
            row.forget_failures()
        row.wait_until(when, scheduled if row.schedule else None)
        row.version += 1
        row.status = REVIVED.get(row.status, row.status)

    def cancel(self, key) -> str:
        row = self.rows.get(key)
        if row is None:
            return "not_found"
        if not row.owned:
            del self.rows[key]
            return "cancelled"
        row.status = CANCELLING
        row.version += 1
        return "cancelling"

    def pause(self, key) -> bool:
        row = self.rows.get(key)
        if row is None or row.status not in (PENDING, RUNNING):
            return False
        if row.status == PENDING:
            row.status = PAUSED
            row.version += 1
        else:
            row.status = PAUSING
        return True

    def resume(self, key, now: float) -> bool:
        row = self.rows.get(key)
        if row is None or row.status not in UNPAUSED:
            return False
        row.version += row.status == PAUSED
        if row.status == PAUSED and row.when < now:
            row.when, row.scheduled = now, row.intended
        row.status = UNPAUSED[row.status]
        return True

    def reschedule(self, key, when: float) -> bool:
        row = self.rows.get(key)
        if row is not None:
            self._move(row, when, scheduled=when)  # chosen, and not by its schedule
        return row is not None

    def run_now(self, key, now: float) -> bool:
        row = self.rows.get(key)
        if row is not None:
            waits = row.status in (PENDING, PAUSED)
            self._move(row, now, scheduled=row.intended if waits else now)
            row.status = UNPAUSED.get(row.status, row.status)
        return row is not None

    def requeue(self, key, now: float) -> bool:
        row = self.rows.get(key)
        if row is None or row.status != FAILED:
            return False
        return self.reschedule(key, now)

    # Workers

    def due(self, lane: tuple[str, int, str], now: float, *, alone: bool) -> list[Row]:
        """The rows that a claim of this lane may take, the earliest first."""
        queue, priority, code = lane
        found = [
            row
            for key, row in self.rows.items()
            if row.status == PENDING
            and row.when <= now
            and (row.queue, row.priority, key[0]) == (queue, priority, code)
            and (row.rescues >= 2) == alone
        ]
        return sorted(found, key=lambda row: row.when)

    def lanes(self) -> dict[tuple[str, int, str], float]:
        found: dict[tuple[str, int, str], float] = {}
        for key, row in self.rows.items():
            if row.status == PENDING:
                lane = (row.queue, row.priority, key[0])
                found[lane] = min(row.when, found.get(lane, row.when))
        return found

    def claim(self, row: Row, worker: int, second: float) -> Claim:
        assert row.status == PENDING
        row.status, row.claimed_by, row.claim_second = RUNNING, worker, second
        row.version += 1
        return Claim(row.id, row.version, worker, second, row.intended)

    def finish(
        self, claim: Claim, outcome: str, *, when: float = 0, biz_ext=None, error="", scheduled=None
    ) -> str:
        """ "as asked", "handed over" or "lost"."""
        key, row = self.by_id(claim.id)
        if (
            key is None
            or row is None
            or (row.claimed_by, row.claim_second) != (claim.owner, claim.second)
        ):
            return "lost"
        if row.version != claim.version or row.status == CANCELLING:
            self._release(key, row)
            return "handed over"
        if outcome == "done":
            del self.rows[key]
            return "as asked"
        if outcome == "next":
            row.wait_until(when, scheduled)
            row.biz_ext = row.biz_ext if biz_ext is None else biz_ext
            row.forget_failures()
        elif outcome == "retry":
            row.wait_until(when, claim.intended)
            row.attempts += 1
            row.rescues = 0
            row.last_error = error
        elif outcome == "again":
            row.wait_until(when, claim.intended)
        elif outcome == "fail":
            row.status = FAILED
            row.attempts += 1
            row.last_error = error
        row.leave_owner()
        return "as asked"

    def _release(self, key, row: Row) -> None:
        if row.status == CANCELLING:
            del self.rows[key]
            return
        row.forget_failures()
        row.leave_owner()

    def rescue(self, dead: set[int], attempts_allowed: int) -> tuple[int, set[int]]:
        """Free rows; return their number, and the ids of those that have failed for it."""
        freed, failed = 0, set()
        for key, row in list(self.rows.items()):
            if row.claimed_by not in dead:
                continue
            freed += 1
            if row.status == CANCELLING:
                del self.rows[key]
                continue
            if row.rescues < 2:
                row.rescues += 1
            else:
                row.attempts += 1
                row.last_error = DIED
                if row.attempts >= attempts_allowed:
                    row.status = FAILED
                    failed.add(row.id)
            row.leave_owner()
        return freed, failed

    def give_back_strays(self, worker: int, held: set[int]) -> int:
        freed = 0
        for key, row in list(self.rows.items()):
            if row.claimed_by != worker or row.id in held:
                continue
            freed += 1
            if row.status == CANCELLING:
                del self.rows[key]
            else:
                row.leave_owner()
        return freed
