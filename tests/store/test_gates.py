"""Gates: never more of a code than its limit says, when workers claim at the same time and die."""

from math import inf
from random import Random
from typing import NamedTuple

import pytest
from django.db import OperationalError, transaction
from django.db.models import F

from django_tasks.models import Gate, Task
from django_tasks.store import gates
from django_tasks.store.claim import Claimer, claim, claim_alone
from django_tasks.store.dialects import has_one_writer
from django_tasks.store.finish import Ended, finish
from django_tasks.store.gates import PASSING_SECONDS, refund, set_limits
from django_tasks.store.pauses import Scope, set_pause
from django_tasks.store.rescue import rescue
from django_tasks.values.claimed import Claimed
from django_tasks.values.limits import Limit, as_limit
from django_tasks.values.outcomes import Done, GiveBack
from django_tasks.values.status import OWNED, Status
from tests.factories import CODE, NOW, WORKER, a_lane, a_row, later, rows, table
from tests.store.test_plans import check_plan, plan_of

pytestmark = pytest.mark.django_db


def a_limit(max_running: int | None, rate: str | None) -> Limit:
    limit = as_limit(max_running, rate)
    assert limit is not None
    return limit


def passing(limit, most=100, worker=WORKER, now=NOW, code=CODE):
    """Claim through the gate as a worker does."""

    def take(free):
        lane = a_lane(biz_code=code)
        return claim(Claimer(worker), lane, now, min(free, most), using="default", careful=True)

    return pass_gate(code, limit, now, take, using="default")


def pass_gate(*args, **kwargs):
    """The passage, without the receipt."""
    return Plain(*gates.pass_gate(*args, **kwargs)[:2])


class Plain(NamedTuple):
    claims: list[Claimed]
    closed_for: float


def owned(code=CODE):
    return Task.objects.filter(biz_code=code, status__in=OWNED).count()


# Runs


def test_no_more_run_than_may_and_it_closes_until_one_ends():
    rows(range(9))
    limit = a_limit(4, None)

    claims, closed_for = passing(limit)
    assert (len(claims), closed_for) == (4, inf)
    assert passing(limit, worker=8) == ([], inf)

    finish([Ended(claims[0], Done())], NOW, using="default")
    again, closed_for = passing(limit, worker=8)
    assert (len(again), closed_for) == (1, inf)
    assert owned() == 4


def test_a_gate_stays_open_as_long_as_more_may_run():
    rows(range(9))
    limit = a_limit(4, None)

    assert passing(limit, most=3)[1] == 0
    assert passing(limit, most=3)[1] == inf
    assert owned() == 4


def test_runs_in_every_owned_status_count_whatever_their_queue():
    for number, status in enumerate(OWNED):
        a_row(str(number), status=status, queue=f"q{number}", priority=number)
    a_row("waits")
    a_row("of another code", biz_code="other", status=Status.RUNNING)

    assert passing(a_limit(3, None)) == ([], inf)
    assert len(passing(a_limit(4, None)).claims) == 1


def test_limits_of_codes_know_nothing_of_each_other():
    rows(range(3))
    others = ["push", CODE.upper(), f"{CODE} 2"]
    for code in others:
        rows(range(3), biz_code=code)

    for code in (CODE, *others):
        assert len(passing(a_limit(2, None), code=code).claims) == 2


def test_rows_of_a_dead_worker_count_until_it_is_rescued():
    rows(range(4))
    limit = a_limit(2, None)
    passing(limit, worker=8)

    assert passing(limit) == ([], inf)
    rescue([8], lambda code: 3, NOW, using="default")

    assert len(passing(limit).claims) == 2


def test_a_row_that_must_run_alone_passes_the_gate_too():
    a_row("1", rescues=2)
    a_row("2", status=Status.RUNNING)

    def alone(free):
        return claim_alone(Claimer(WORKER), a_lane(), NOW, using="default")

    assert pass_gate(CODE, a_limit(1, None), NOW, alone, using="default") == ([], inf)
    assert len(pass_gate(CODE, a_limit(2, None), NOW, alone, using="default").claims) == 1


def test_what_is_paused_does_not_pass():
    rows(range(3))
    set_pause(Scope("", CODE), NOW, using="default")

    assert passing(a_limit(2, "5/s")) == ([], 0.0)


def test_a_claim_that_fails_leaves_the_gate_as_it_was():
    rows(range(3))
    limit = a_limit(2, "1/m")

    def dies(free):
        claim(Claimer(WORKER), a_lane(), NOW, free, using="default", careful=True)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        pass_gate(CODE, limit, NOW, dies, using="default")

    assert owned() == 0
    assert len(passing(limit).claims) == 1


# Rates


def test_starts_come_as_evenly_as_the_rate_says():
    rows(range(9))
    limit = a_limit(None, "6/m")

    assert passing(limit) == (passing_claims(1), pytest.approx(10))
    assert passing(limit, now=later(9.75)) == ([], pytest.approx(0.25))
    assert len(passing(limit, now=later(10)).claims) == 1
    # Nothing is saved up.
    assert len(passing(limit, now=later(3600)).claims) == 1


def passing_claims(count):
    class Claims:
        def __eq__(self, other):
            return len(other) == count

        __hash__ = None  # type: ignore[assignment]

    return Claims()


def test_a_high_rate_lets_through_a_few_at_once():
    rows(range(99))
    limit = a_limit(None, "1000/s")

    claims, closed_for = passing(limit)

    assert len(claims) == 50
    assert 0 < closed_for < 0.01


def test_a_start_that_was_given_back_is_used_up():
    rows(range(3))
    limit = a_limit(None, "1/s")
    (claimed,), _ = passing(limit)

    finish([Ended(claimed, GiveBack())], NOW, using="default")

    assert passing(limit).claims == []


def through(limit, starts=1, *, now=NOW):
    """The receipt of a passage."""
    lane = a_lane()

    def take(free):
        return claim(Claimer(WORKER), lane, now, min(free, starts), using="default", careful=True)

    return gates.pass_gate(CODE, limit, now, take, using="default").receipt


def state_of_the_gate():
    return Gate.objects.values_list("full_until", flat=True).get()


def test_a_refund_leaves_the_gate_as_if_the_unused_starts_had_never_been():
    rows(range(60))
    limit = a_limit(None, "1000/s")
    through(limit, 1)
    before = through(limit, 8)
    after_eight = state_of_the_gate()
    Gate.objects.update(full_until=before.full_until)
    receipt = through(limit, 20)
    left = refund(receipt, 12, using="default")
    assert left is not None
    assert (state_of_the_gate(), left.starts) == (after_eight, 8)
    nothing = refund(left, 8, using="default")
    assert nothing is not None
    assert nothing.starts == 0
    assert state_of_the_gate() == before.full_until


def test_a_start_that_was_refunded_is_free_again():
    rows(range(3))
    limit = a_limit(None, "1/d")
    receipt = through(limit)
    assert passing(limit).claims == []
    assert refund(receipt, 1, using="default")
    assert len(passing(limit).claims) == 1


def test_nothing_is_refunded_once_somebody_else_has_passed():
    rows(range(9))
    limit = a_limit(None, "100/s")
    receipt = through(limit)
    through(limit)
    before = state_of_the_gate()
    assert refund(receipt, 1, using="default") is None
    assert state_of_the_gate() == before


def test_a_gate_that_finds_nothing_to_claim_gives_nothing_out():
    limit = a_limit(None, "1/m")

    assert passing(limit) == ([], 0.0)
    rows(range(2))

    assert len(passing(limit).claims) == 1


def test_both_limits_hold():
    rows(range(9))
    limit = a_limit(2, "6/m")

    assert [len(passing(limit, now=later(seconds)).claims) for seconds in (0, 5, 10, 20)] == [
        1,
        0,
        1,
        0,
    ]
    assert passing(limit, now=later(30)).closed_for == inf


# Limits of operators


def operator(max_running, rate_limit=None, code=CODE):
    return set_limits(code, (max_running, rate_limit), using="default")


@pytest.mark.parametrize(("own", "set_", "may_run"), [(5, 2, 2), (2, 5, 5), (None, 3, 3)])
def test_an_operators_limit_holds_in_place_of_the_handlers(own, set_, may_run):
    rows(range(9))
    assert operator(set_)
    assert len(passing(as_limit(own, None)).claims) == may_run
    assert passing(as_limit(own, None), worker=8) == ([], inf)
    assert owned() == may_run


def test_it_replaces_that_of_its_kind_and_leaves_the_other():
    rows(range(9))
    limit = a_limit(3, "60/m")
    operator(None, "6/m")

    claims, closed_for = passing(limit)
    assert (len(claims), closed_for) == (1, 10.0)
    assert passing(limit, now=later(9.9)).claims == []
    assert [len(passing(limit, now=later(seconds)).claims) for seconds in (10, 20)] == [1, 1]
    assert passing(limit, now=later(600)) == ([], inf)  # three run


def test_a_limit_holds_from_its_commit_on_and_so_does_its_end():
    rows(range(9))
    own = a_limit(1, None)
    assert len(passing(own).claims) == 1
    operator(4)
    assert len(passing(own).claims) == 3
    operator(2)
    assert passing(own) == ([], inf)
    operator(None)
    assert passing(own) == ([], inf)
    operator(5)
    assert len(passing(own).claims) == 1


def test_without_any_limit_the_gate_is_open_for_all():
    """A worker that has not heard yet of the end of the last one."""
    rows(range(9))
    operator(2)
    operator(None)
    claims, closed_for = passing(None)
    assert (len(claims), closed_for) == (9, 0.0)


def test_limits_are_read_with_the_row_and_not_at_the_look_before(monkeypatch):
    rows(range(9))
    own = a_limit(9, None)
    passing(own, most=1)
    looks: list[str] = []
    look = gates._look

    def slow(dialect, biz_code, lock=""):
        state = look(dialect, biz_code, lock)
        if not looks:
            operator(3)  # after the look, before the row is taken
        looks.append(lock)
        return state

    monkeypatch.setattr(gates, "_look", slow)
    assert len(passing(own).claims) == 2
    assert len(looks) == 2
    assert owned() == 3


def test_limits_are_set_once_changed_once_and_removed_once():
    assert [operator(3, "5/m"), operator(3, "5/m")] == [True, False]
    assert gates.limits(using="default") == {CODE: (3, "5/m")}
    assert [operator(3), operator(None, "5/m"), operator(4, "5/m")] == [True] * 3
    assert [operator(None), operator(None)] == [True, False]
    assert gates.limits(using="default") == {}
    assert not operator(None, code="unknown")
    assert Gate.objects.count() == 1


def test_limits_leave_what_a_rate_has_given_out_and_other_codes():
    rows(range(9))
    limit = a_limit(None, "1/d")
    through(limit)
    before = state_of_the_gate()
    operator(7)
    operator(1, code="other")
    assert Gate.objects.get(biz_code=CODE).full_until == before
    assert passing(limit).claims == []
    assert gates.limits(using="default") == {CODE: (7, None), "other": (1, None)}


def test_a_refund_after_limits_were_set_is_by_those_of_the_passage():
    rows(range(9))
    limit = a_limit(None, "1/d")
    receipt = through(limit)
    operator(None, "100/s")
    assert refund(receipt, 1, using="default")
    operator(None)
    assert len(passing(limit).claims) == 1


@pytest.mark.parametrize("by_operator", [True, False], ids=["operator", "deployment"])
def test_a_rate_that_has_been_raised_holds_up_nobody(by_operator):
    rows(range(9))
    through(a_limit(None, "1/d"))
    own = a_limit(None, "1/d" if by_operator else "100/s")
    if by_operator:
        operator(None, "100/s")
    assert passing(own, now=later(1)).closed_for < 0.1
    assert len(passing(own, now=later(2)).claims) == 5


def test_the_limits_are_read_by_one_statement(queries):
    operator(3)
    with queries() as captured:
        gates.limits(using="default")
    assert len([query for query in captured if "t_task" in query["sql"]]) == 1


@pytest.mark.django_db(transaction=True)
def test_many_who_set_the_same_at_once_change_it_once(elsewhere):
    for wanted in ((3, "5/m"), (4, None), (None, None)):
        answers = [elsewhere(operator, *wanted) for _ in range(8)]
        assert sorted(answer.result() for answer in answers) == [False] * 7 + [True]


@pytest.mark.django_db(transaction=True)
def test_of_different_limits_that_are_set_at_once_one_stands_whole(elsewhere):
    wanted = [(number, f"{number}/s") for number in range(1, 9)]
    for answer in [elsewhere(operator, *each) for each in wanted]:
        assert answer.result()
    assert gates.limits(using="default")[CODE] in wanted


@pytest.mark.django_db(transaction=True)
def test_a_limit_that_is_set_while_others_claim_holds_at_once(elsewhere):
    """Passages before it are over, and those after it count by it."""
    rows(range(200))
    own = a_limit(40, None)
    runs = [
        elsewhere(lambda worker: [passing(own, most=1, worker=worker) for _ in range(9)], worker)
        for worker in range(1, 5)
    ]
    operator(3)
    before = owned()
    for run in runs:
        run.result()
    assert owned() <= max(3, before)


# Statements


def test_a_closed_gate_is_found_so_without_a_lock(queries):
    rows(range(3))
    limit = a_limit(1, "1/s")
    passing(limit)

    with queries() as captured:
        passing(limit)

    asked = [query["sql"] for query in captured]
    assert len(asked) == 2
    assert all(sql.startswith("SELECT") and "FOR UPDATE" not in sql for sql in asked)


def test_what_runs_is_counted_along_the_claim_index(queries):
    rows(range(2000))
    rows((f"owned {n}" for n in range(20)), status=Status.RUNNING)

    with queries() as captured:
        passing(a_limit(1, None))

    (count,) = [query["sql"] for query in captured if "COUNT" in query["sql"]][:1]
    assert "t_task_claim" in str(plan_of(count))
    check_plan(count)


# Many at once


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(3))
def test_however_many_claim_at_once_no_more_run_than_may(elsewhere, seed):
    rows(range(150))
    limit, most_seen = a_limit(5, None), []

    def work(worker):
        random, done = Random(seed * 100 + worker), 0
        for _ in range(400):
            claims, _ = passing(limit, most=random.choice([1, 2, 5]), worker=worker)
            if claims:
                most_seen.append(owned())
                finish([Ended(each, Done()) for each in claims], NOW, using="default")
                done += len(claims)
            elif not Task.objects.exists():
                break
        return done

    runs = [elsewhere(work, worker) for worker in range(1, 7)]

    assert sum(run.result() for run in runs) == 150
    assert max(most_seen) <= 5


@pytest.mark.django_db(transaction=True)
def test_however_many_claim_at_once_no_more_start_than_the_rate_says(elsewhere):
    rows(range(60))
    limit = a_limit(None, "100/s")

    def work(worker):
        return sum(len(passing(limit, worker=worker).claims) for _ in range(20))

    runs = [elsewhere(work, worker) for worker in range(1, 7)]

    assert sum(run.result() for run in runs) == 5
    assert Gate.objects.get().passes <= 5


@pytest.mark.django_db(transaction=True)
def test_a_gate_that_somebody_holds_is_stepped_over(elsewhere):
    rows(range(3))
    limit = a_limit(2, None)
    passing(limit, most=1)

    with transaction.atomic():
        assert Gate.objects.update(passes=F("passes")) == 1  # which locks it on every database
        other = elsewhere(passing, limit)
        if not has_one_writer("default"):
            claims, closed_for = other.result()
            assert claims == []
            assert 0 < closed_for <= 1.5 * PASSING_SECONDS

    # With one lock for all writers there is nothing to step over: the other has waited for it.
    came = other.result().claims or passing(limit).claims
    assert len(came) == 1


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_stepped_over_too(elsewhere):
    rows(range(3))
    with transaction.atomic():
        assert table(biz_num="0").update(version=F("version")) == 1
        other = elsewhere(passing, a_limit(2, None))
        stepped_over = not has_one_writer("default") and other.result() is not None

    numbers = {claimed.biz_num for claimed in other.result().claims}
    assert numbers == ({"1", "2"} if stepped_over else {"0", "1"})


def test_a_conflict_at_the_commit_is_a_gate_that_somebody_else_has_passed(monkeypatch):
    rows(range(3))
    limit = a_limit(2, "1/s")
    cause = OperationalError(1213, "Deadlock found")
    monkeypatch.setattr("django_tasks.store.gates.is_contention", lambda using, error: True)

    def conflicting(free):
        raise cause

    claims, closed_for = pass_gate(CODE, limit, NOW, conflicting, using="default")

    assert claims == []
    assert 0 < closed_for <= 1.5 * PASSING_SECONDS


def test_so_is_one_at_the_making_of_its_row(monkeypatch):
    monkeypatch.setattr("django_tasks.store.gates.is_contention", lambda using, error: True)

    def conflicting(biz_code, *, using):
        raise OperationalError(1213, "Deadlock found")

    with monkeypatch.context() as patch:
        patch.setattr(gates, "add_gate", conflicting)
        claims, closed_for = passing(a_limit(2, None))

    assert claims == []
    assert 0 < closed_for <= 1.5 * PASSING_SECONDS


def test_a_gate_that_was_written_behind_our_back_lets_nothing_through():
    rows(range(3))
    limit = a_limit(2, None)
    passing(limit, most=1)

    def overtaken(free):
        Gate.objects.update(passes=99)
        return claim(Claimer(8), a_lane(), NOW, free, using="default", careful=True)

    claims, closed_for = pass_gate(CODE, limit, NOW, overtaken, using="default")

    assert claims == []
    assert 0 < closed_for < 1
    assert owned() == 1
