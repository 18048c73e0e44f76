"""Values never become SQL: no statement's text depends on them, and what they say is stored."""

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.db import connection

from django_tasks import api, store
from django_tasks.locks import rows as lock_rows
from django_tasks.models import EndedPause, Gate, Lock, Pause, Task, TaskMinute, TaskRun, WorkerRow
from django_tasks.sentences import CONTROLS
from django_tasks.store import (
    backlog,
    claim,
    claimed_rows,
    clock,
    control,
    debounce,
    failed,
    finish,
    gates,
    lanes,
    minutes,
    pauses,
    rescue,
    runs,
    search,
    upsert,
    workers,
)
from django_tasks.store.claim import Claimer
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import Place
from django_tasks.store.minutes import Counted, minute_of
from django_tasks.store.pauses import Scope
from django_tasks.store.workers import Peer, Registration, Signs
from django_tasks.values.claimed import Progress
from django_tasks.values.conflicts import DebounceTerms, OnConflict
from django_tasks.values.figures import COLUMNS
from django_tasks.values.hosts import number_of
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.limits import as_limit
from django_tasks.values.options import TaskOptions, options_to_text
from django_tasks.values.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Outcome,
    Reschedule,
    Retry,
    Unsettled,
)
from django_tasks.values.status import Status
from django_tasks.worker.marks import LaneMarks
from tests.factories import (
    NOW,
    WORKER,
    a_claim,
    a_lane,
    a_line,
    a_new,
    a_row,
    a_task,
    later,
    rows,
    table,
    the_row,
    there_is,
)
from tests.vendor import ON_SQLITE

pytestmark = pytest.mark.django_db

ME = Claimer(WORKER)
NOBODY = 10**12  # no worker has this id yet

# All of them can be a key: at most fifty characters, no blanks around. "h0st" is in each.
HOSTILE = [
    "'; DROP TABLE t_task; --h0st",
    '"; DROP TABLE t_task; --h0st',
    "`; DROP TABLE t_task; --h0st",
    "');DELETE FROM t_task;SELECT ('h0st",
    "h0st' OR '1'='1",
    "h0st\\",
    "h0st\\' OR 1=1 #",
    "\\x27 OR 1=1 -- h0st",
    "%s%d%%%(biz_num)s h0st %",
    "{task} {when} {0} {{h0st}}",
    "$1 :1 :name ? h0st",
    "/* h0st */ -- #",
    "h0st\n;\r\n--\tx",  # no new key may be so: see tests/commands/test_control_characters.py
    "_h0st%",
    "h0st \u02bc\uff07\u00b4`' OR ''='",
    "h0st 😀 \u202e 日本",
    "null h0st",
    "*h0st[(.)]^$|+?",
]


class Texts(NamedTuple):
    """Everything of a row that callers, handlers and hosts write."""

    code: str
    number: str
    queue: str
    payload: str
    error: str
    name: str

    @classmethod
    def all(cls, text: str) -> "Texts":
        return cls(text, text, text, json.dumps({text: [text]}, ensure_ascii=False), text, text)


class Statement(NamedTuple):
    sql: str
    params: Any
    many: bool


@contextmanager
def recorded() -> Iterator[list[Statement]]:
    """Every statement that Django hands to the driver meanwhile, as it is handed over."""
    seen: list[Statement] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(Statement(sql, params, many))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield seen


class Caller:
    """Calls functions of the store, and remembers which."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.called.add(f"{function.__module__.rpartition('.')[2]}.{function.__name__}")
        return function(*args, using="default", **kwargs)


def everything(texts: Texts) -> set[str]:
    """Call all that the store can do, with these texts; returns the names of what was called."""
    do = Caller()
    for part in (
        adding,
        looking,
        claiming,
        finishing,
        telling,
        steering,
        pausing,
        limiting,
        rescuing,
        working,
        locking,
    ):
        table().delete()
        Lock.objects.all().delete()
        part(do, texts)
    return do.called


def new(texts: Texts, number: str = "", **fields: Any) -> Any:
    values = {"biz_code": texts.code, "queue": texts.queue, "biz_ext": texts.payload} | fields
    return a_new(texts.number + number, schedule=texts.error, **values)


def row(texts: Texts, number: str = "", **fields: Any) -> Task:
    values = {"biz_code": texts.code, "queue": texts.queue, "last_error": texts.error} | fields
    return a_row(texts.number + number, schedule=texts.error, **values)


def claimed(texts: Texts, number: str) -> Any:
    row(texts, number)
    lane = a_lane(biz_code=texts.code, queue=texts.queue)
    (one,) = claim.claim(ME, lane, NOW, 1, using="default")
    return one


def adding(do: Caller, texts: Texts) -> None:
    options = options_to_text(TaskOptions(on_misfire="skip"))
    for conflict in OnConflict:
        do(upsert.upsert_one, new(texts, name=texts.name, options=options), conflict, NOW)
        do(upsert.upsert_one, new(texts, name=texts.name), conflict, NOW, paused=True)
        both = [new(texts), new(texts, conflict.value)]
        do(upsert.upsert, both, conflict, NOW)
        do(upsert.upsert, both, conflict, NOW)
    terms = DebounceTerms(timedelta(seconds=1), timedelta(seconds=2))
    for _ in range(2):
        do(debounce.debounce, new(texts), terms, lambda waiting: waiting, NOW)
    do(workers.doors)
    do(clock.share_a_clock)


def looking(do: Caller, texts: Texts) -> None:
    row(texts)
    assert len(do(search.with_keys, {(texts.code, texts.number)})) == 1
    (plan,) = do(search.planned, [texts.number], [texts.code]).values()
    assert (plan.schedule, plan.queue) == (texts.error, texts.queue)
    assert do(search.at_work, texts.code) is None
    a_row(SCHEDULE_NUM, biz_code=texts.code, biz_ext=texts.payload)
    assert do(search.at_work, texts.code) == (NOW, texts.payload)
    assert json.loads(do(search.payload_of, texts.code, SCHEDULE_NUM)) == texts.payload
    host = number_of("1")
    a_row(host, biz_code=texts.code)
    assert do(search.of_other_hosts, [texts.code], texts.number, later(1)) == [(texts.code, host)]
    assert do(control.discard, search.key(texts.code, host), later(1)) == 1
    assert len(do(search.pending_like, texts.code, texts.number)) == 1
    for at_start in (True, False):
        match = search.containing(texts.code, texts.number, at_start=at_start)
        assert Task.objects.filter(match).count() == 1
    found = do(search.beginning, texts.number)
    assert Task.objects.filter(found, biz_code=texts.code).count() == 1
    assert Task.objects.filter(search.key(texts.code, texts.number)).count() == 1


def claiming(do: Caller, texts: Texts) -> None:
    for number in range(4):
        row(texts, str(number), rescues=2 if number == 0 else 0)
    (lane,), paused = do(lanes.look)
    assert paused == frozenset()
    assert (lane.queue, lane.biz_code) == (texts.queue, texts.code)
    assert do(lanes.every_lane) == [lane]
    place = Place(later(-3600), 5)
    searches = LaneMarks({claim.WHOLE: place}, place)
    assert do(lanes.look_along, {lane[:3]: place}) == ([lane], frozenset())
    assert do(lanes.has_suspects, lane, NOW, since=place)
    do(lanes.count_due, lane, NOW)
    assert do(lanes.look_everywhere) == ([lane], frozenset())
    assert do(backlog.count_each, [lane], Status.PENDING, 2) == [3]
    assert do(backlog.due_each, [lane], NOW, later(-1), 9) == [(4, 0)]
    assert do(backlog.times_each, [lane], later(-9), NOW, 9) == [[NOW] * 4]
    assert do(backlog.failed_each, [lane], 9) == []
    assert do(backlog.held, 9) == []
    assert len(do(backlog.newest_each, [lane], Status.PENDING, 2)) == 2
    assert len(do(claim.claim_alone, ME, lane, NOW)) == 1
    assert len(do(claim.claim, ME, lane, NOW, 1)) == 1
    assert len(do(claim.claim, ME, lane, NOW, 1, careful=True, places=searches)) == 1
    wanted = [claim.Wanted(lane, 1, searches), claim.Wanted(lane._replace(queue="-"), 1, searches)]
    assert [len(some) for some in do(claim.claim_together, ME, wanted, NOW, 2)] == [1, 0]
    assert len(do(claim.owned_ids, WORKER)) == 4
    row(texts, "5")
    key = texts.code, texts.number + "5"
    assert do(claim.claim_row, ME, *key, NOW, failed=True).biz_num == key[1]


def finishing(do: Caller, texts: Texts) -> None:
    retry = Retry(later(60), texts.error)
    ends: list[Outcome] = [
        *(Done(), retry, Fail(texts.error), Reschedule(later(60), texts.payload)),
        *(Again(later(60)), GiveBack(), Unsettled(retry)),
    ]
    claims = [claimed(texts, str(number)) for number in range(len(ends))]
    assert not do(claimed_rows.is_cancelled, claims[0])
    do(claimed_rows.await_claim, claims[0])
    assert do(claimed_rows.is_ours, claims[0])
    assert do(claimed_rows.unmoved, claims) == {claim.id for claim in claims}
    assert do(claimed_rows.save_payload, claims[0], texts.payload)
    do(claimed_rows.save_progress, claims[0], Progress(1, None, texts.error))
    # The last but one was added again meanwhile: it is handed over.
    do(upsert.upsert, [new(texts, str(len(ends) - 2))], OnConflict.REPLACE, NOW)
    for careful in (False, True):
        batch = [Ended(each, outcome) for each, outcome in zip(claims, ends, strict=True)]
        half = batch[: len(batch) // 2] if careful else batch[len(batch) // 2 :]
        assert not do(finish.finish, half, NOW, careful=careful).lost
    table().delete()
    end = Ended(claimed(texts, "in"), Reschedule(later(9), texts.payload))
    assert not do(finish.finish_inside, [end], NOW)


def telling(do: Caller, texts: Texts) -> None:
    line = a_line(
        biz_code=texts.code, biz_num=texts.number, worker=texts.name, error=texts.error, ended=NOW
    )
    # Few and many: they are sent in different ways.
    do(runs.record, [line])
    do(runs.record, [line] * 9)
    assert not do(runs.prune, later(1))
    assert do(runs.delete_old, later(1)) == 0
    a_row(texts.number, biz_code=texts.code, queue=texts.queue, status=Status.FAILED)
    assert do(failed.delete_old_failed, later(1)) == 1  # its time is NOW
    one = Counted(minute_of(NOW), texts.code, texts.error, range(len(COLUMNS)))
    do(minutes.add, WORKER, [one] * 9)
    do(minutes.sums, one.minute, one.minute + 1, biz_code=texts.code, step=5, by_code=True)
    # Of failures alone there is no mark.
    assert (do(minutes.mark, one.minute + 1), do(minutes.marks, one.minute)) == ((0, 0), {})
    assert do(minutes.failures, one.minute)[0].exception == texts.error
    assert do(minutes.merge_workers, one.minute + 1)
    assert do(minutes.merge_hours, one.minute + 60)
    assert do(minutes.merge_old, one.minute + 1)
    assert TaskRun.objects.count() == 0


def steering(do: Caller, texts: Texts) -> None:
    row(texts)
    for match in (
        search.key(texts.code, texts.number),
        search.containing(texts.code, texts.number, at_start=False),
    ):
        ids = list(table().filter(match).values_list("id", flat=True))
        pause = partial(control.pause, now=NOW, using="default")
        assert do(control.among, table().filter(match), ids, pause) == 1
        assert do(control.resume, match, NOW) == 1
        assert do(control.pause, match, NOW) == 1
        assert do(control.resume, match, NOW) == 1
        assert do(control.in_order, match, control.pause, NOW) == 1
        assert do(control.resume, match, NOW) == 1
        assert do(control.reschedule, match, later(60), NOW) == 1
        assert do(control.replan, match, later(60), NOW) == 1
        assert do(control.run_now, match, NOW) == 1
        facts = {"name": texts.name, "queue": texts.queue}
        assert do(control.decide, match, lambda there: ({"queue": texts.queue}, later(60)), NOW)
        assert do(control.alter, match, facts, NOW) == 1
        facts["biz_ext"] = texts.payload
        assert do(control.change, match, facts, lambda options: options, None, NOW)
        assert do(control.change, match, facts, None, later(60), NOW)
        table().update(status=Status.FAILED)
        assert do(control.requeue, match, NOW) == 1
    assert do(control.cancel, match, NOW) == (1, 0)


def pausing(do: Caller, texts: Texts) -> None:
    row(texts)
    scope = Scope(texts.queue, texts.code)
    assert do(pauses.set_pause, scope, NOW, texts.name)
    assert do(lanes.look) == ([], {scope})
    (pause,) = do(pauses.pauses)
    assert (Scope(pause.queue, pause.biz_code), pause.by) == (scope, texts.name)
    assert do(pauses.spans, *scope, NOW) == [(NOW, None)]
    assert do(pauses.unset_pause, scope, later(1))
    assert do(pauses.spans, *scope, NOW) == [(NOW, later(1))]
    do(pauses.forget_ends, later(2))
    assert do(pauses.spans, *scope, NOW) == []


def limiting(do: Caller, texts: Texts) -> None:
    row(texts)
    row(texts, "second")
    limit, rate = as_limit(1, "1/s"), as_limit(None, "1/s")
    assert limit
    assert rate
    lane = a_lane(biz_code=texts.code, queue=texts.queue)
    Gate.objects.all().delete()

    def take(free: int) -> Any:
        return claim.claim(ME, lane, NOW, free, using="default", careful=True)

    assert not do(gates.pass_gate, texts.code, limit, NOW, lambda free: [])[0]
    assert len(do(gates.pass_gate, texts.code, limit, NOW, take)[0]) == 1
    assert not do(gates.add_gate, texts.code)
    receipt = gates.pass_gate(texts.code, rate, later(60), take, using="default").receipt
    assert receipt
    assert do(gates.refund, receipt, 1)
    limits = (1, "1/s")
    Gate.objects.all().delete()
    assert do(gates.set_limits, texts.code, limits)
    assert not do(gates.set_limits, texts.code, limits)
    assert do(gates.limits) == {texts.code: limits}
    assert do(gates.has_rate, texts.code, None)
    assert do(gates.set_limits, texts.code, (None, None))
    do(lanes.next_due, lane, NOW)


def rescuing(do: Caller, texts: Texts) -> None:
    states = (Status.RUNNING, Status.PAUSING, Status.CANCELLING)
    for number, status in enumerate(states):
        row(texts, str(number), status=status)
        row(texts, f"alone {number}", status=status, rescues=2)
    assert len(do(rescue.rescue, [WORKER], lambda code: 1, NOW).freed) == 6
    row(texts, "stray", status=Status.RUNNING, rescues=1)
    assert do(rescue.forgive, WORKER) == 1
    assert do(rescue.give_back_strays, WORKER, [], NOW) == 1


def working(do: Caller, texts: Texts) -> None:
    codes = (texts.code,)
    registration = Registration(
        texts.name,
        30.0,
        8,
        (texts.queue, texts.name),
        host=texts.name,
        version=texts.name[:50],
        codes=codes,
        wish=texts.name[:20],
    )
    ids = [do(workers.register, registration, NOW) for _ in range(2)]
    signs = Signs(texts.name[:20], {texts.name: 1}, 1, 1)
    assert do(workers.beat, ids[0], NOW, signs)
    assert do(workers.beat, ids[0], NOW, signs._replace(codes=codes))
    assert do(workers.set_wish, ids[0], texts.name[:20])
    do(clock.read_clock)
    _, peers = do(workers.roll_call)
    row(texts, status=Status.RUNNING, claimed_by=NOBODY)
    assert do(workers.orphaning_owners) == [NOBODY]
    first = next(peer for peer in peers if peer.id == ids[0])
    assert do(workers.fence, Peer(*first))
    assert do(workers.remove, ids[1])


def locking(do: Caller, texts: Texts) -> None:
    hold = do(lock_rows.take, texts.name, texts.number, 30.0)
    assert (hold.name, hold.holder) == (texts.name, texts.number)
    assert not do(lock_rows.take, texts.name, texts.code, 30.0)
    assert do(lock_rows.renew, hold, 30.0)
    assert do(lock_rows.save, hold, texts.error)
    assert do(lock_rows.attributes_of, hold) == texts.error
    assert do(lock_rows.state, texts.name).holder == texts.number
    (state,) = do(lock_rows.states, [texts.name, texts.code])
    assert (state.name, state.holder) == (texts.name, texts.number)
    assert do(lock_rows.free, hold)
    assert do(lock_rows.take, texts.name, texts.code, 30.0)
    do(lock_rows.now_in_microseconds)


def parameters(function: Callable[..., Any]) -> Collection[str]:
    return inspect.signature(function).parameters


def public() -> set[str]:
    """Functions of the store that take a database, but for those that send no statement."""
    found = set()
    modules = pkgutil.iter_modules(store.__path__, f"{store.__name__}.")
    for module in (*(each.name for each in modules), lock_rows.__name__):
        for name, value in inspect.getmembers(importlib.import_module(module)):
            is_public = inspect.isfunction(value) and not name.startswith("_")
            if is_public and value.__module__ == module and "using" in parameters(value):
                found.add(f"{module.rpartition('.')[2]}.{name}")
    # Those about the forerunner's table rename it: tests/importers has them, hostile texts and all.
    found = {name for name in found if not name.startswith("forerunner.")}
    return found - {
        "aliases.read_alias",
        "aliases.write_alias",
        "clock.now",
        "clock.database_now",
        "timeouts.bounded_transaction",
        "connection.take_connection",
        "connection.separate_connection",
        "connection.keep_connection",
        "connection.drop_connection",
        "connection.trial_session",
        "connection.open_blocks",
        "connection.close_blocks",
        "errors.is_refusal",
        "errors.kind_of",
        "errors.was_cut_off",
        "rejections.rejection_of",
        "rejections.session_rejection",
        "tables.sentence",
        "tables.words",
        "transactions.is_contention",
        "transactions.write_transaction",
        "transactions.answered_transaction",
    }


def plain(statements: list[Statement]) -> list[str]:
    """Their texts, without the numbers that Django gives to savepoints."""
    return [re.sub(r"s\d+_x\d+", "savepoint", statement.sql) for statement in statements]


def test_all_that_the_store_can_do_is_called_here() -> None:
    assert everything(Texts.all("x")) == public()


# A server gets its share: the text of a statement is made before one is asked.
@pytest.mark.parametrize("text", HOSTILE if ON_SQLITE else HOSTILE[::3])
def test_no_statement_depends_on_the_values(text: str) -> None:
    everything(Texts.all("x"))  # what is asked once is asked
    with recorded() as ordinary:
        everything(Texts.all("x"))
    with recorded() as hostile:
        everything(Texts.all(text))
    assert plain(hostile) == plain(ordinary)
    assert not [statement.sql for statement in hostile if "h0st" in statement.sql]
    assert [statement for statement in hostile if "h0st" in str(statement.params)]


def test_each_mark_of_a_statement_has_its_value() -> None:
    with recorded() as statements:
        everything(Texts.all("x"))
    for sql, params, many in statements:
        assert not many
        marks = len(re.findall(r"(?<!%)%s", sql))
        assert marks == len(params or ()), sql


def test_the_names_in_statements_are_those_of_the_models() -> None:
    models = (Task, TaskRun, TaskMinute, WorkerRow, Pause, EndedPause, Gate, Lock)
    names = {model._meta.db_table for model in models} | {"savepoint"}
    names |= {str(field.column) for model in models for field in model._meta.concrete_fields}
    with recorded() as statements:
        everything(Texts.all(HOSTILE[0]))
    quote = re.escape(connection.ops.quote_name("x")[0])
    for sql in plain(statements):
        quoted = set(re.findall(f"{quote}(.*?){quote}", sql))
        assert quoted <= names | {"subquery", "__count", "cast1"}, sql  # aliases of Django
        # The only texts: an error that is forgotten, JSON's null, PostgreSQL's time zone, what
        # makes a pattern of SQLite and of MySQL ignore case, what a Galera node is asked once, and
        # the name of a bound.
        texts = {"", "null", "UTC", "(?i)", "i", "wsrep_on", "lock_timeout", "statement_timeout"}
        assert set(re.findall(r"'(.*?)'", sql)) <= texts, sql


@pytest.mark.parametrize("text", [text for text in HOSTILE if not CONTROLS.search(text)])
def test_hostile_texts_are_stored_and_found_as_they_are(text: str) -> None:
    others = ["1", "h0st", "%", "x" + text, text + "x"]
    rows(others, biz_code="order")
    payload = {text: [text, {"sql": text}]}
    added = api.add_task(a_task(text, biz_code=text, queue=text, biz_ext=payload))
    found = api.get_task(text, text)
    assert found is not None
    assert (found.pk, found.biz_code, found.biz_num) == (added.pk, text, text)
    assert (found.queue, found.biz_ext) == (text, payload)

    lane = a_lane(biz_code=text, queue=text)
    (one,) = claim.claim(ME, lane, NOW, 9, using="default")
    assert (one.biz_code, one.biz_num, one.queue) == (text, text, text)
    finish.finish([Ended(one, Fail(text))], NOW, using="default")
    assert the_row(text, text).last_error == text

    assert api.cancel_task(text, text) == "cancelled"
    assert not there_is(text, text)
    assert Task.objects.count() == len(others)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_fragment_finds_what_contains_it_and_nothing_else(text: str) -> None:
    rows(["1", "h0st", "%", "_", "\\", "'", f"a{text}b", text])
    assert {task.biz_num for task in api.get_tasks_by_code("order", text)} == {f"a{text}b", text}
    assert api.delete_tasks("order", text, match="prefix", dry_run=True) == 1
    assert api.delete_tasks("order", text) == 2
    assert Task.objects.count() == 6


def test_a_claim_of_another_rows_key_is_impossible_by_text() -> None:
    """A number that reads as a condition is a number."""
    a_claim("1")
    a_row("1 OR 1=1")
    assert api.pause_task("order", "1 OR 1=1")
    assert the_row("1").status == Status.RUNNING
