"""One seed, from its first step to the checker's verdict."""

import sqlite3
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from tests.faults import checker, steward
from tests.faults.history import Clock, History
from tests.faults.records import from_records
from tests.faults.verdicts import Accusation, defects
from tests.simulated_cluster import endings, replaced, rules, stage
from tests.simulated_cluster.choices import Choices
from tests.simulated_cluster.clients import SimulatedClient
from tests.simulated_cluster.cluster import DRIFT, Cluster
from tests.simulated_cluster.database import Database
from tests.simulated_cluster.disasters import Disasters
from tests.simulated_cluster.handlers import MOST_RUNNING, Limited
from tests.simulated_cluster.hosts import BEGINNING
from tests.simulated_cluster.journal import Journal
from tests.simulated_cluster.scheduler import Actor, Scheduler
from tests.simulated_cluster.settings import LEASE
from tests.simulated_cluster.threads import sleep
from tests.simulated_cluster.weather import Weather

CLIENTS = 3
# How long the turbulent part lasts, and the quiet one at the end, in leases.
TURBULENT = (2.0, 6.0)
QUIET = (2.0, 20.0)
# The shares of plays in fair weather.
FAIR, FAIR_AND_SMALL = 0.1, 0.5
# How likely a deployment comes next in such a play.
DEPLOYMENTS = 0.3
# The cluster must be done with everything so many leases after the last fault.
SETTLED = 40.0
LOOK_SECONDS = LEASE / 6
# The rows that workers own, dead ones too; and those that are due and have nothing to wait for: no
# limit, and no other suspect.
HELD = "SELECT id, claimed_by, biz_code FROM t_task WHERE claimed_by IS NOT NULL"
WAITING = (
    "SELECT id, version FROM t_task WHERE status = 0 AND rescues < 2"
    " AND biz_code NOT IN ('limited', 'rated') AND \"when\" <= '{}'"
)
# A play takes some ten thousands, seldom a hundred. With more, somebody asks again and again
# without a pause.
MOST_TURNS = 300_000


@dataclass
class Result:
    """The result of one play."""

    seed: int
    accusations: list[Accusation] = field(default_factory=list)
    steps: int = 0
    decisions: int = 0
    worker_hours: float = 0.0
    tasks: int = 0
    runs: int = 0
    digest: str = ""
    met: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)


class Play:
    """A cluster that is born, suffers, comes to rest, and ends."""

    def __init__(self, raw: sqlite3.Connection, seed: int, limit: float, traced: bool) -> None:
        self._seed = seed
        replaced.seed_everything(seed)
        stage.choices = choices = Choices(seed, limit)
        stage.scheduler = Scheduler(_died)
        stage.journal = self._journal = Journal(traced)
        stage.is_optimistic, stage.is_mysql = choices.chance(0.5), choices.chance(0.3)
        stage.database = self._database = Database(raw)
        self._cluster = cluster = Cluster(LEASE)
        stage.weather = self._weather = Weather(LEASE, cluster.kill)
        self._disasters = Disasters(
            self._weather, lambda: cluster.hosts, cluster.kill, cluster.stop
        )
        # No storms and no disasters, but orderly stops: then nothing excuses a task that waits.
        self._is_fair = choices.chance(FAIR if cluster.is_large else FAIR_AND_SMALL)
        self._turbulent = LEASE * choices.between(*TURBULENT)
        self._is_over = False

    def result(self) -> Result:
        """Play it."""
        cluster = self._cluster
        cluster.start_workers()
        cluster.run("watch", self._watch, is_spared=True)
        cluster.run("fate", self._fate, is_spared=True)
        for number in range(1, CLIENTS + 1):
            client = SimulatedClient(number, self._seed, LEASE)
            cluster.run(f"c{number}", partial(client.work, self._turbulent))
        cluster.run("steward", self._steward, is_spared=True)
        stage.scheduler.run(self._turbulent + (2 * SETTLED + QUIET[1]) * LEASE, MOST_TURNS)
        if stage.scheduler.turns >= MOST_TURNS:
            self._journal.write("complaint", text="a worker or more never come to rest")
        history = self._history()
        verdict = checker.check(history)
        return Result(
            self._seed,
            [*verdict.accusations, *self._more_accusations(history)],
            self._journal.steps,
            stage.choices.made,
            cluster.worker_seconds / 3600,
            verdict.tasks,
            verdict.runs,
            self._journal.digest(),
            dict(self._journal.met),
            self._journal.trace or [],
        )

    def _more_accusations(self, history: History) -> Iterator[Accusation]:
        records = self._journal.records
        yield from defects("\n".join(self._journal.log))
        for rule in rules.RULES:
            yield from rule(records)
        for promise in endings.RULES:
            yield from promise(history, records)

    # Those who are neither workers nor clients

    def _fate(self) -> None:
        """Storms and disasters come and go; in fair weather, deployments alone."""
        choices = stage.choices
        sleep(choices.scale(0.1, LEASE))
        while not (stage.scheduler.now >= self._turbulent or choices.are_over):
            if self._is_fair:
                if choices.chance(DEPLOYMENTS):
                    self._disasters.deployment()
                sleep(choices.scale(1.0, LEASE))
                continue
            if choices.chance(0.7):
                self._disasters.strike()
            self._weather.begin_storm(self._cluster.hosts)
            sleep(choices.scale(0.5, LEASE))
            self._weather.end_storm(self._cluster.hosts)
            sleep(choices.scale(1.0, LEASE))

    def _watch(self) -> None:
        """Look at the rows that are held and at those that wait, again and again."""
        while not self._is_over:
            if (held := self._database.look(HELD)) is not None:
                self._note_held(held)
                waiting = self._database.look(WAITING.format(self._database.now()))
                free = self._cluster.threads() - len(held)
                self._journal.write("waiting", rows=waiting, free=free)
            sleep(LOOK_SECONDS)

    def _note_held(self, rows: list[Any]) -> None:
        self._journal.write("held", rows=[row[:2] for row in rows])
        limited = sum(code == Limited.biz_code for *_, code in rows)
        if limited > MOST_RUNNING:
            text = f"{limited} rows of {Limited.biz_code} are owned: {rows}"
            self._journal.write("complaint", text=text)

    def _steward(self) -> None:
        """Wait for the end of the turbulence, have everything done, and stop the workers."""
        while stage.scheduler.now < self._turbulent and not stage.choices.are_over:
            sleep(1.0)
        self._turbulent = stage.scheduler.now
        self._weather.end_storm(self._cluster.hosts)
        self._journal.write("settling")
        deadline = stage.scheduler.now + SETTLED * LEASE
        while not self._is_settled() and stage.scheduler.now < deadline:
            sleep(LOOK_SECONDS)
        sleep(LEASE * stage.choices.scale(*QUIET))
        while not self._cluster.is_well():
            sleep(1.0)  # or it goes on after its deadline, and nobody is left to rescue from it
        self._cluster.stop_all()
        deadline = stage.scheduler.now + SETTLED * LEASE / 2
        while self._cluster.hosts and stage.scheduler.now < deadline:
            sleep(1.0)
        for host in self._cluster.hosts:
            self._journal.write("complaint", text=f"{host.name} does not end")
        self._is_over = True

    def _is_settled(self) -> bool:
        from django.db import Error, connection

        try:
            return steward.settle() == 0
        except Error:
            connection.close()
            return False

    # Afterwards

    def _history(self) -> History:
        look = self._database.look_at_end
        columns = 'id, biz_code, biz_num, status, version, claimed_by, "when", biz_ext'
        names = columns.replace('"', "").split(", ")
        effects = look("SELECT code, num, nonce, hop, task_id, version FROM faults_effect")
        lines = look(
            "SELECT biz_code, biz_num, COUNT(*) FROM t_task_run"
            " WHERE outcome NOT IN ('lost', 'cancelled') AND worker NOT LIKE '#%'"
            " AND missed <> 'fail' GROUP BY 1, 2"
        )
        rows = look(f"SELECT {columns} FROM t_task")  # noqa: S608 - names of ours
        workers = look("SELECT id FROM t_task_worker")
        offsets = self._database.offsets
        middle = (min(offsets) + max(offsets)) / 2
        # A host may run ahead of the database since it has last read its clock.
        error = (max(offsets) - min(offsets)) / 2 + 2 * DRIFT * LEASE
        clock = Clock(BEGINNING.timestamp() + middle, error)
        history = History(
            LEASE,
            clock,
            rows=[dict(zip(names, row, strict=True)) for row in rows],
            workers=[row[0] for row in workers],
            effects=[((row[0], row[1]), *row[2:]) for row in effects],
            lines={(row[0], row[1]): row[2] for row in lines},
        )
        return from_records(self._journal.records, history)


def _died(actor: Actor, error: Exception) -> None:
    text = "".join(traceback.format_exception(error))
    stage.journal.write("complaint", text=f"{actor.host.name}.{actor.name} died: {text}")


def play(raw: sqlite3.Connection, seed: int, limit: float = inf, traced: bool = False) -> Result:
    """Play one seed on an empty database."""
    return Play(raw, seed, limit, traced).result()
