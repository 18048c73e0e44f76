"""A correct execution in miniature: the row protocol in memory, with everything that can happen.

It makes histories that the checker must accept, whatever hypothesis chooses: clients whose answers
get lost, workers that fall silent and come back, rows that move while they run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from tests.faults.history import Add, Call, End, History, Key, Run

LEASE = 3.0


@dataclass
class Row:
    id: int
    key: Key
    version: int
    nonce: str
    when: float
    owner: int | None = None
    going: bool = False


class Simulation:
    """``step`` does one thing at a time; ``choose(n)`` picks from 0 to n - 1."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self._now = 0.0
        self._ids = 0
        self._nonces = 0
        self._rows: dict[Key, Row] = {}
        self._running: list[tuple[Run, int]] = []
        self._workers = {1: 1, 2: 2}  # by process
        self._next_worker = 3
        self.history = History(LEASE, beats={1: [0.0], 2: [0.0]}, lines={})

    def step(self) -> None:
        actions: tuple[Callable[[], None], ...] = (
            *(self.add, self.add, self.cancel, self.claim, self.claim, self.finish),
            *(self.finish, self.silence, self.reschedule),
        )
        actions[self._choose(len(actions))]()

    def end(self) -> History:
        """Let everything run to its end."""
        while self._running:
            self.finish()
        while self._rows:
            self._now = max(self._now, *(row.when for row in self._rows.values()))
            self.claim()
            self.finish()
        return self.history

    # Clients

    def add(self) -> None:
        key, sent = self._key(), self._tick()
        done, answered = self._fate()
        self._nonces += 1
        nonce, when = f"n{self._nonces}", self._now + self._choose(3)
        add = Add("add", key, sent, nonce=nonce, when=when)
        if done:
            row = self._rows.get(key)
            if row is None:
                self._ids += 1
                row = self._rows[key] = Row(self._ids, key, 0, nonce, when)
            else:
                row.version += 1
                row.nonce, row.when, row.going = nonce, when, False
            if answered:
                add = replace(add, id=row.id, version=row.version, stored=True)
        self._call(add, answered)

    def cancel(self) -> None:
        key, sent = self._key(), self._tick()
        done, answered = self._fate()
        row = self._rows.get(key)
        result = "not_found"
        if row is not None and done:
            result = "cancelled" if row.owner is None else "cancelling"
            if row.owner is None:
                del self._rows[key]
            else:
                row.version += 1
                row.going = True
        self._call(Call("cancel", key, sent, result=result if answered else None), answered)

    def reschedule(self) -> None:
        key, sent = self._key(), self._tick()
        done, answered = self._fate()
        row = self._rows.get(key)
        if row is not None and done:
            row.version += 1
            row.when, row.going = self._now + self._choose(3), False
        self._call(Call("reschedule", key, sent, result=row is not None), answered)

    def _call(self, call: Any, answered: bool) -> None:
        if answered:
            call = replace(call, answered=self._tick(), answer="acknowledged")
        else:
            call = replace(call, answered=inf)
        self.history.calls.append(call)

    def _fate(self) -> tuple[bool, bool]:
        """Tell if a call is carried out, and whether the client hears of it."""
        return ((True, True), (True, True), (True, False), (False, False))[self._choose(4)]

    # Workers

    def claim(self) -> None:
        due = [row for row in self._rows.values() if row.owner is None and row.when <= self._now]
        if not due:
            self._now += 1
            return
        row = due[self._choose(len(due))]
        process = 1 + self._choose(2)
        worker = self._workers[process]
        row.version += 1
        row.owner = worker
        self._beat(worker)
        run = Run(
            row.key, row.id, row.version, worker, process, row.nonce, 0, row.when, self._tick()
        )
        self._running.append((run, len(self._running)))

    def finish(self) -> None:
        if not self._running:
            return
        run, _ = self._running.pop(self._choose(len(self._running)))
        run = replace(run, end=self._tick(), how="done")
        self.history.runs.append(run)
        row = self._rows.get(run.key)
        verdict = "lost"
        if row is not None and (row.id, row.owner) == (run.id, run.worker):
            same = row.version == run.version and not row.going
            verdict = "accepted" if same else "handed_over"
            row.owner = None
            row.version += 1
            if same or row.going:
                del self._rows[run.key]
        if self._workers[run.pid] == run.worker:
            self._beat(run.worker)
        self.history.ends.append(End(self._tick(), run.claim, "Done", verdict))
        if verdict != "lost" and self.history.lines is not None:
            self.history.lines[run.key] = self.history.lines.get(run.key, 0) + 1

    def silence(self) -> None:
        """A worker is silent for longer than its lease; its rows are taken from it."""
        process = 1 + self._choose(2)
        old, other = self._workers[process], self._workers[3 - process]
        for _ in range(9):
            self._now += LEASE / 3
            self._beat(other)
        for row in list(self._rows.values()):
            if row.owner == old:
                row.owner = None
                row.version += 1
                if row.going:
                    del self._rows[row.key]
        self.history.rescues.append((other, self._tick()))
        self._workers[process] = self._next_worker
        self._next_worker += 1
        self._beat(self._workers[process])

    def _beat(self, worker: int) -> None:
        self.history.beats.setdefault(worker, []).append(self._now)

    def _key(self) -> Key:
        return "plain", f"hot-{self._choose(2)}"

    def _tick(self) -> float:
        self._now += 0.01
        for worker in self._workers.values():
            beats = self.history.beats.setdefault(worker, [self._now])
            if self._now - beats[-1] > LEASE / 3:
                beats.append(self._now)
        return self._now
