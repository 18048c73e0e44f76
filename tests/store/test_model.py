"""The store against the reference: after any sequence of steps every row is the same in both.

Several workers claim, finish, die, are rescued from and finish after all; clients add, cancel,
pause and move. What the protocol promises is checked as well: see the invariants.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.db.models import Q
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from django_tasks.models import Task
from django_tasks.store import control, search
from django_tasks.store.claim import (
    UNKNOWN,
    Claimer,
    Wanted,
    claim,
    claim_alone,
    claim_together,
    owned_ids,
)
from django_tasks.store.claimed_rows import is_cancelled
from django_tasks.store.debounce import debounce
from django_tasks.store.finish import Ended, FinishResult, finish
from django_tasks.store.lanes import Lane
from django_tasks.store.rescue import DIED_ALONE, give_back_strays, rescue
from django_tasks.store.upsert import NewTask, upsert, upsert_one
from django_tasks.values import payload_text
from django_tasks.values.claimed import Claimed
from django_tasks.values.conflicts import DebounceTerms, OnConflict
from django_tasks.values.outcomes import Again, Done, Fail, GiveBack, Reschedule, Retry, Unsettled
from django_tasks.values.status import OWNED, Status
from tests.factories import NOW, in_utc, lanes, table
from tests.store import reference
from tests.store.reference import Reference
from tests.vendor import ON_SQLITE

KEYS = [("order", "a"), ("order", "A"), ("order", "b"), ("push", "a")]
SCHEDULES = [None, None, "every 1h"]
# How long a debounced task waits, and no longer than: in most of them the second one decides.
PATIENCE = [(2, None), (2, 2), (2, 3), (8, 9)]
QUEUES = [("default", 0), ("default", 0), ("mail", 5)]
ATTEMPTS_ALLOWED = 2
USING = "default"

keys = st.sampled_from(KEYS)
places = st.sampled_from(QUEUES)
schedules = st.sampled_from(SCHEDULES)
modes = st.sampled_from(list(OnConflict))
# Mostly due at once: what waits for its time is not claimed.
delays = st.sampled_from([-4, -2, -1, 0, 0, 0, 1, 3, 8])
outcomes = st.sampled_from(
    ["done", "next", "next with payload", "retry", "again", "fail", "give back"]
)
STEERING = ["cancel", "cancel by fragment", "pause", "resume", "reschedule", "run_now", "requeue"]


@dataclass
class Worker:
    """The beliefs of one worker. A dead one keeps them."""

    id: int
    alive: bool = True
    held: list[Claimed] = field(default_factory=list)


class Protocol(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        table().delete()
        self.reference = Reference()
        self.second: float = 0
        self.serial = 0
        self.workers: list[Worker] = []
        self.settled: list[Claimed] = []
        self.gone: set[int] = set()
        self.accepted: set[tuple[int, int]] = set()
        self.made: dict[tuple[int, int, int], reference.Claim] = {}
        # key → payload of the last add that nobody has cancelled; payloads that were claimed
        self.wanted: dict[tuple[str, str], int] = {}
        self.claimed_payloads: set[int] = set()

    @property
    def now(self):
        return self.moment(self.second)

    def moment(self, second):
        return NOW + timedelta(seconds=second)

    def next_payload(self):
        self.serial += 1
        return self.serial

    @initialize(delays=st.lists(st.integers(-4, 0), min_size=len(KEYS), max_size=len(KEYS)))
    def everything_is_there(self, delays):
        """Two workers, and a task under every key."""
        self.workers = [Worker(1), Worker(2)]
        for key, delay in zip(KEYS, delays, strict=True):
            self.add_one(key, delay, OnConflict.REPLACE, QUEUES[0], None)

    @rule(data=st.data())
    def step(self, data):
        """One of all that is possible now.

        A rule of its own for each would be idle most of the time: hypothesis leaves some rules
        out of each run, and without a claim there is nothing to finish.
        """
        self.no_two_times_are_equal()
        possible = [
            getattr(self, name)
            for name, (weight, condition) in STEPS.items()
            for _ in range(weight)
            if condition(self)
        ]
        chosen = data.draw(st.sampled_from(possible))
        chosen(data)

    def no_two_times_are_equal(self):
        """Of equal ones any may be the first, and another when a sequence is repeated."""
        self.second += 1e-6

    def time_passes(self, data):
        self.second += data.draw(st.integers(1, 5))

    # Clients

    def new(self, key, delay, place, schedule=None):
        value = self.next_payload()
        self.no_two_times_are_equal()
        when = self.second + delay
        text = payload_text.dump(value, 1000)
        (biz_code, biz_num), (queue, priority) = key, place
        new = NewTask(biz_code, biz_num, self.moment(when), text, queue, priority, schedule)
        return value, when, new

    def was_moved(self, key, mode, value, when, place, schedule=None):
        queue, priority = place
        moved = self.reference.add(key, mode.value, when, value, queue, priority, schedule)
        if moved:
            self.was_added(key, value)
        return moved

    def was_added(self, key, value):
        self.wanted[key] = value
        row = self.reference.rows[key]
        if not row.id:
            row.id = Task.objects.get(biz_code=key[0], biz_num=key[1]).pk
            assert row.id not in self.gone

    def add_one(self, key, delay, mode, place, schedule):
        value, when, new = self.new(key, delay, place, schedule)
        stored, moved = upsert_one(new, mode, self.now, using=USING)
        assert moved == self.was_moved(key, mode, value, when, place, schedule)
        assert (stored.biz_code, stored.biz_num) == key
        assert stored.pk == self.reference.rows[key].id
        assert stored.version == self.reference.rows[key].version

    def add(self, data):
        drawn = data.draw(st.tuples(keys, delays, modes, places, schedules))
        self.add_one(*drawn)

    def debounce(self, data):
        key, (wait, at_most), place = data.draw(st.tuples(keys, st.sampled_from(PATIENCE), places))
        value, _, new = self.new(key, 0, place)
        terms = DebounceTerms(
            timedelta(seconds=wait), None if at_most is None else timedelta(seconds=at_most)
        )
        stored = debounce(new, terms, lambda waiting: new.biz_ext, self.now, using=USING)
        self.reference.debounce(key, self.second, wait, at_most, value, *place)
        self.was_added(key, value)
        assert stored.pk == self.reference.rows[key].id
        assert in_utc(stored.when) == self.moment(self.reference.rows[key].when)

    def add_a_batch(self, data):
        wanted = data.draw(st.dictionaries(keys, st.tuples(delays, places), min_size=1))
        mode = data.draw(modes)
        made = {
            key: (*self.new(key, delay, place), place) for key, (delay, place) in wanted.items()
        }
        moved = upsert([new for _, _, new, _ in made.values()], mode, self.now, using=USING)
        expected = {
            key
            for key, (value, when, _, place) in made.items()
            if self.was_moved(key, mode, value, when, place)
        }
        assert moved == expected

    def steer(self, data):
        key, delay, name = data.draw(st.tuples(keys, delays, st.sampled_from(STEERING)))
        when = self.second + delay
        operation = getattr(control, name.partition(" ")[0])
        if name == "cancel":
            self.cancel(key, search.key(*key))
        elif name == "cancel by fragment":
            self.cancel(key, search.containing(*key, at_start=False))
        elif name == "reschedule":
            done = operation(search.key(*key), self.moment(when), self.now, using=USING)
            assert done == self.reference.reschedule(key, when)
        elif name in ("resume", "run_now", "requeue"):
            done = operation(search.key(*key), self.now, using=USING)
            assert done == getattr(self.reference, name)(key, self.second)
        else:
            done = operation(search.key(*key), self.now, using=USING)
            assert done == getattr(self.reference, name)(key)

    def cancel(self, key, matching):
        row = self.reference.copy_of(key)
        done = control.cancel(matching, self.now, using=USING)
        result = self.reference.cancel(key)
        assert done == {"cancelled": (1, 0), "cancelling": (0, 1), "not_found": (0, 0)}[result]
        self.wanted.pop(key, None)
        if result == "cancelled":
            assert row is not None
            self.gone.add(row.id)

    # Workers

    def living(self):
        return [worker for worker in self.workers if worker.alive]

    def due_lanes(self, *, alone):
        lanes = self.reference.lanes()
        return sorted(lane for lane in lanes if self.reference.due(lane, self.second, alone=alone))

    def store_lane(self, lane):
        queue, priority, biz_code = lane
        return Lane(queue, priority, biz_code, self.now)

    def claim(self, data):
        worker = data.draw(st.sampled_from(self.living()))
        rivals = data.draw(st.sampled_from([1, 3]))
        careful = data.draw(st.booleans())
        limit = data.draw(st.integers(1, 3))
        lane = data.draw(st.sampled_from(self.due_lanes(alone=False)))
        due = self.reference.due(lane, self.second, alone=False)
        taken = claim(
            Claimer(worker.id, rivals),
            self.store_lane(lane),
            self.now,
            limit,
            using=USING,
            careful=careful,
        )
        assert 1 <= len(taken) <= limit
        if rivals == 1:
            assert len(taken) == min(limit, len(due))
        self.were_claimed(worker, taken, due, in_order=rivals == 1)

    def claim_together(self, data):
        worker = data.draw(st.sampled_from(self.living()))
        rivals = data.draw(st.sampled_from([1, 3]))
        limit, most = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
        lanes = data.draw(st.permutations(sorted(self.reference.lanes())))
        wanted = [Wanted(self.store_lane(lane), most, UNKNOWN) for lane in lanes]
        taken = claim_together(Claimer(worker.id, rivals), wanted, self.now, limit, using=USING)
        assert sum(map(len, taken)) <= limit
        for lane, some in zip(lanes, taken, strict=False):
            due = self.reference.due(lane, self.second, alone=False)
            room = min(most, limit, len(due))
            assert len(some) == room if rivals == 1 else bool(some) == bool(room)
            limit -= len(some)
            if some:
                self.were_claimed(worker, some, due, in_order=rivals == 1)
        assert rivals > 1 or limit == 0 or len(taken) == len(lanes)

    def claim_alone(self, data):
        worker = data.draw(st.sampled_from(self.living()))
        lane = data.draw(st.sampled_from(self.due_lanes(alone=True)))
        due = self.reference.due(lane, self.second, alone=True)
        taken = claim_alone(Claimer(worker.id, 2), self.store_lane(lane), self.now, using=USING)
        assert len(taken) == 1
        self.were_claimed(worker, taken, due, in_order=True)

    def claim_from_any_lane(self, data):
        """Also where nothing is due, or nothing that may run beside others."""
        worker = data.draw(st.sampled_from(self.living()))
        key = data.draw(st.sampled_from(sorted(self.reference.rows)))
        row = self.reference.rows[key]
        lane = (row.queue, row.priority, key[0])
        if not self.reference.due(lane, self.second, alone=False):
            nothing = claim(Claimer(worker.id, 3), self.store_lane(lane), self.now, 3, using=USING)
            assert nothing == []
        if not self.reference.due(lane, self.second, alone=True):
            nothing = claim_alone(Claimer(worker.id), self.store_lane(lane), self.now, using=USING)
            assert nothing == []

    def were_claimed(self, worker, taken, due, *, in_order):
        by_id = {row.id: row for row in due}
        assert {item.id for item in taken} <= set(by_id)
        if in_order:
            left = [row.when for row in due if row.id not in {item.id for item in taken}]
            assert max(by_id[item.id].when for item in taken) <= min(left, default=self.second)
        for item in taken:
            row = by_id[item.id]
            assert item.when <= self.now
            assert item.id not in self.gone
            assert (item.attempts, item.rescues) == (row.attempts, row.rescues)
            assert item.last_error == self.error(row)
            assert payload_text.load(item.biz_ext) == row.biz_ext
            assert item.when == self.moment(row.when)
            assert item.intended_time == self.moment(row.intended)
            known = self.reference.claim(row, worker.id, self.second)
            self.made[item.id, item.version, worker.id] = known
            assert (item.version, item.worker_id) == (known.version, known.owner)
            worker.held.append(item)
            self.claimed_payloads.add(row.biz_ext)

    def outcome(self, data, item):
        """(the store's outcome, what the reference calls it, its arguments)"""
        kind = data.draw(outcomes)
        when = self.second + data.draw(delays)
        error = f"error {item.id}"
        if kind == "done":
            return Done(), "done", {}
        if kind == "next":
            if not item.schedule:
                return Reschedule(self.moment(when)), "next", {"when": when}
            jittered = Reschedule(self.moment(when), scheduled_time=self.moment(when - 1))
            return jittered, "next", {"when": when, "scheduled": when - 1}
        if kind == "next with payload":
            value = self.next_payload()
            text = payload_text.dump(value, 1000)
            return Reschedule(self.moment(when), text), "next", {"when": when, "biz_ext": value}
        if kind == "retry":
            retry = Retry(self.moment(when), error)
            wrapped = data.draw(st.sampled_from([retry, Unsettled(retry)]))
            return wrapped, "retry", {"when": when, "error": error}
        if kind == "again":
            again = Again(self.moment(when))
            wrapped = data.draw(st.sampled_from([again, Unsettled(again)]))
            return wrapped, "again", {"when": when}
        if kind == "fail":
            return Fail(error), "fail", {"error": error}
        return GiveBack(), "give back", {}

    def end(self, data, items):
        ends: list[Ended] = []
        expected: dict[str, set[int]] = {"as asked": set(), "handed over": set(), "lost": set()}
        for item in items:
            outcome, kind, arguments = self.outcome(data, item)
            ends.append(Ended(item, outcome))
            known = self.made[item.id, item.version, item.worker_id]
            told = self.reference.finish(known, kind, **arguments)
            expected[told].add(item.id)
            if told == "as asked":
                assert (item.id, item.version) not in self.accepted
                self.accepted.add((item.id, item.version))
        result = finish(ends, self.now, using=USING, careful=data.draw(st.booleans()))
        assert result == FinishResult(expected["handed over"], expected["lost"], set())
        self.settled += items

    def finish(self, data):
        """Of the living, and of the dead who do not know that they are."""
        worker = data.draw(st.sampled_from([worker for worker in self.workers if worker.held]))
        items = data.draw(st.lists(st.sampled_from(worker.held), unique=True, min_size=1))
        if len({item.id for item in items}) < len(items):
            items = items[:1]  # one row claimed twice: the ends of both are never in one batch
        worker.held = [item for item in worker.held if item not in items]
        self.end(data, items)

    def finish_again(self, data):
        """The answer to a finish was lost, and the same end is written again."""
        owners = {row.id: row.claimed_by for row in self.reference.rows.values()}
        claimed_again = [item for item in self.settled if owners.get(item.id) == item.worker_id]
        item = data.draw(st.sampled_from(claimed_again or self.settled))
        self.end(data, [item])

    def a_worker_dies(self, data):
        """Somebody else starts in its place, and sooner or later somebody rescues."""
        data.draw(st.sampled_from([item for item in self.living() if item.held])).alive = False
        self.workers.append(Worker(len(self.workers) + 1))

    def rescue(self, data):
        dead = {worker.id for worker in self.workers if not worker.alive}
        result = rescue(sorted(dead), lambda code: ATTEMPTS_ALLOWED, self.now, using=USING)
        freed, failed = self.reference.rescue(dead, ATTEMPTS_ALLOWED)
        assert (len(result.freed), {row.id for row in result.failed}) == (freed, failed)
        assert not Task.objects.filter(claimed_by__in=dead).exists()

    def orphans(self):
        owners = {row.claimed_by for row in self.reference.rows.values()}
        return any(worker.id in owners for worker in self.workers if not worker.alive)

    def a_claim_is_forgotten(self, data):
        worker = data.draw(st.sampled_from([item for item in self.living() if item.held]))
        worker.held.remove(data.draw(st.sampled_from(worker.held)))
        held = {item.id for item in worker.held}
        freed = give_back_strays(worker.id, held, self.now, using=USING)
        assert freed == self.reference.give_back_strays(worker.id, held)

    def look(self, data):
        """At all that can be asked without changing anything."""
        found = lanes(using=USING)
        assert {tuple(lane[:3]): lane.first for lane in found} == {
            lane: self.moment(first) for lane, first in self.reference.lanes().items()
        }
        assert found == sorted(found, key=lambda lane: (-lane.priority, lane.first))
        for worker in self.workers:
            mine = {row.id for row in self.reference.rows.values() if row.claimed_by == worker.id}
            assert owned_ids(worker.id, using=USING) == mine
            for item in worker.held:
                _, row = self.reference.by_id(item.id)
                running = (
                    row is not None
                    and row.claimed_by == worker.id
                    and row.status != Status.CANCELLING
                )
                assert is_cancelled(item, using=USING) == (not running)

    # What always holds

    @invariant()
    def every_row_is_as_in_the_reference(self):
        rows = {
            (row.biz_code, row.biz_num): (
                *(row.pk, Status(row.status), row.version, in_utc(row.when), row.biz_ext),
                *(row.queue, row.priority, row.attempts, row.rescues, row.claimed_by),
                *(row.last_error, row.schedule),
                *(in_utc(row.scheduled_time), in_utc(row.latest_time)),
            )
            for row in Task.objects.all()
        }
        assert rows == {
            key: (
                *(row.id, row.status, row.version, self.moment(row.when), row.biz_ext),
                *(row.queue, row.priority, row.attempts, row.rescues, row.claimed_by),
                *(self.error(row), row.schedule),
                *(self.time(row.scheduled), self.time(row.latest)),
            )
            for key, row in self.reference.rows.items()
        }

    def time(self, second):
        return None if second is None else self.moment(second)

    def error(self, row):
        return str(DIED_ALONE) if row.last_error == reference.DIED else row.last_error

    @invariant()
    def an_owner_stands_in_owned_rows_and_nowhere_else(self):
        owned = Q(status__in=OWNED)
        assert not Task.objects.filter(owned, claimed_by=None).exists()
        assert not Task.objects.filter(~owned & Q(claimed_by__isnull=False)).exists()
        assert not Task.objects.filter(~owned & Q(claim_time__isnull=False)).exists()

    @invariant()
    def nothing_that_was_cancelled_is_there(self):
        assert not Task.objects.filter(pk__in=self.gone).exists()

    def teardown(self):
        """Let everything end: then every add that nobody cancelled has run."""
        if self.workers:
            self._everything_ends()
            assert set(self.wanted.values()) <= self.claimed_payloads
            assert not Task.objects.exists()

    def _everything_ends(self):
        self.second += 1000
        everything = Q(biz_code__in=["order", "push"])
        for worker in self.workers:
            worker.alive = False
        last = Worker(len(self.workers) + 1)
        while True:
            control.resume(everything, self.now, using=USING)
            rescue([worker.id for worker in self.workers], lambda code: 99, self.now, using=USING)
            control.requeue(everything, self.now, using=USING)
            taken = []
            for lane in lanes(using=USING):
                taken += claim(Claimer(last.id), lane, self.now, 9, using=USING)
                taken += claim_alone(Claimer(last.id), lane, self.now, using=USING)
            if not taken:
                return
            self.claimed_payloads |= {payload_text.load(item.biz_ext) for item in taken}
            finish([Ended(item, Done()) for item in taken], self.now, using=USING)


# How often each step is taken, and when it can be. Hypothesis likes the first ones best.
STEPS = {
    "claim_alone": (6, lambda self: self.due_lanes(alone=True)),
    "rescue": (5, lambda self: self.orphans()),
    "a_worker_dies": (2, lambda self: any(worker.held for worker in self.living())),
    "claim": (6, lambda self: self.due_lanes(alone=False)),
    "claim_together": (4, lambda self: self.reference.lanes()),
    "finish": (5, lambda self: any(worker.held for worker in self.workers)),
    "steer": (4, lambda self: True),
    "finish_again": (2, lambda self: self.settled),
    "time_passes": (1, lambda self: True),
    "a_claim_is_forgotten": (1, lambda self: any(worker.held for worker in self.living())),
    "claim_from_any_lane": (1, lambda self: self.reference.rows),
    "look": (1, lambda self: True),
    "add_a_batch": (2, lambda self: True),
    "add": (3, lambda self: True),
    "debounce": (2, lambda self: True),
}


# A step costs a server three times as much: there, other sequences come with each run.
ON_A_SERVER = settings(max_examples=20)


@pytest.mark.django_db
def test_any_sequence_of_steps_leaves_every_row_as_the_reference_has_it(monkeypatch):
    # Shares go by id, and ids are others when a sequence is repeated.
    monkeypatch.setattr("django_tasks.store.claim.MOST_SHARES", 1)
    run_state_machine_as_test(Protocol, settings=None if ON_SQLITE else ON_A_SERVER)
