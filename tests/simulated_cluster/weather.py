"""Faults of single statements: when they strike, and what they do.

Most of a play is fair: only the times that a statement takes differ. In storms statements are
refused, their answers are lost, they hang, deadlock, or their process is frozen or killed. The
seed also chooses the climate: which of these there are at all.
"""

from collections.abc import Callable, Iterable

from tests.simulated_cluster import stage
from tests.simulated_cluster.database import BUSY, IO_ERROR, Session, error
from tests.simulated_cluster.hosts import Host, current

KINDS = ("refused", "lost", "hung", "deadlock", "frozen", "killed")
# The most of each in one play: a cluster that never gets anywhere shows little.
MOST = {"refused": 60, "lost": 60, "hung": 12, "deadlock": 60, "frozen": 8, "killed": 8}
SLOWNESS = (2.0, 100.0)
# Where the network between a host and its database is cut, nothing comes back, not even an error.
CUT_SECONDS = 3.0


class Weather:
    """Strikes statements on their way to the database, and answers on their way back."""

    def __init__(self, lease: float, kill: Callable[[Host], None]) -> None:
        choices = stage.choices
        self.lease = lease
        self.is_stormy = False
        self._kill = kill
        weights = [choices.pick((1.0, 0.0, 1.0, 4.0)) for _ in KINDS]
        self._weights = dict(zip(KINDS, weights, strict=True))
        self._left = dict(MOST)
        self._share = choices.scale(0.001, 0.03)
        self._slow_share = choices.scale(0.001, 0.05)
        self._quickest = choices.scale(0.00002, 0.001)

    def kill_here(self) -> None:
        """SIGKILL the process whose turn it is."""
        stage.journal.met["killed by a run"] += 1
        self._kill(current().host)

    def before_connecting(self, session: Session) -> None:
        """Let the time pass that a connection takes; it may be refused."""
        self._travel(session)
        if session.host.cut_until > stage.scheduler.now:
            stage.scheduler.sleep(min(CUT_SECONDS, session.patience))
            raise error("disk I/O error: no route", IO_ERROR)

    def on_the_way(self, session: Session, sql: str) -> None:
        """A statement is under way, and has not been carried out."""
        self._travel(session)
        self._cross(session)
        match self._strike(session):
            case "refused":
                self._lose(session)
            case "deadlock":
                if session.in_transaction:
                    session.give_up()
                raise error("database is locked: a deadlock", BUSY)
            case struck:
                self._befall(session, struck)

    def on_the_way_back(self, session: Session, sql: str) -> None:
        """A statement was carried out, and nobody knows."""
        self._travel(session)
        self._cross(session)
        match self._strike(session):
            case "lost" | "refused":
                self._lose(session)
            case struck:
                self._befall(session, struck)

    def begin_storm(self, hosts: Iterable[Host]) -> None:
        """Faults strike from now on, and some hosts are much slower than others: what they do is
        seldom done in between otherwise.
        """
        self.is_stormy = True
        stage.journal.write("storm")
        for host in hosts:
            host.slowness = stage.choices.scale(*SLOWNESS) if stage.choices.chance(0.3) else 1.0

    def end_storm(self, hosts: Iterable[Host]) -> None:
        self.is_stormy = False
        stage.journal.write("calm")
        for host in hosts:
            host.slowness = 1.0

    def _travel(self, session: Session) -> None:
        choices = stage.choices
        if choices.chance(self._slow_share):
            seconds = choices.scale(0.01, 1.0)
        else:
            seconds = self._quickest * choices.between(1.0, 10.0)
            if not session.in_transaction:  # everybody would wait for it
                seconds *= session.host.slowness
        stage.scheduler.sleep(seconds)

    def _cross(self, session: Session) -> None:
        """Cross the network, if there is a way."""
        if session.host.cut_until > stage.scheduler.now:
            stage.scheduler.sleep(min(CUT_SECONDS, session.patience))
            self._lose(session)

    def _strike(self, session: Session) -> str:
        choices, host = stage.choices, session.host
        if not self.is_stormy or host.is_spared or not choices.chance(self._share):
            return ""
        kinds = [kind for kind in KINDS if self._left[kind] and self._weights[kind]]
        if not kinds:
            return ""
        kind = choices.pick(kinds, [self._weights[kind] for kind in kinds])
        if kind in ("frozen", "killed") and not host.is_worker:
            return ""
        self._left[kind] -= 1
        stage.journal.met[f"statements {kind}"] += 1
        stage.journal.tell(f"STRIKE {kind}")
        return kind

    def _befall(self, session: Session, struck: str) -> None:
        """Let happen what is the same on both ways."""
        match struck:
            case "hung":
                self._hang(session)
            case "frozen":
                self._freeze(session.host)
            case "killed":
                self._kill(session.host)

    def _lose(self, session: Session) -> None:
        stage.database.lose(session)
        raise error("disk I/O error: the connection broke", IO_ERROR)

    def _hang(self, session: Session) -> None:
        """Nothing comes for a while; the driver gives up when its patience ends."""
        seconds = stage.choices.scale(0.2, 2 * self.lease)
        patience = min(seconds, session.patience)
        victims = self._victims(session.host)
        # Whatever else a worker waits for is no excuse for a heartbeat that does not come.
        if not victims or "heartbeat" in current().name:
            stage.journal.fault("hung", stage.scheduler.now + patience, victims)
        stage.scheduler.sleep(patience)
        if patience < seconds:
            self._lose(session)

    def _freeze(self, host: Host) -> None:
        """The whole process stands still: its heartbeats, its runs, and this statement."""
        self.freeze(host, stage.choices.scale(0.1 * self.lease, 3 * self.lease))
        stage.scheduler.sleep(0.0)

    def freeze(self, host: Host, seconds: float) -> None:
        """Have a process stand still."""
        host.frozen_until = max(host.frozen_until, stage.scheduler.now + seconds)
        stage.journal.fault("SIGSTOP", host.frozen_until, self._victims(host))

    def _victims(self, host: Host) -> list[int]:
        """The processes that a host harms which does not go on: all, if a transaction of it stays
        open, for nobody else can write. The servers lock rows only; there, the transaction mostly
        is ended for it.
        """
        holder = stage.database.holder
        if holder is None or holder.host is not host:
            return [host.pid]
        if stage.is_optimistic and stage.choices.chance(0.8):
            stage.database.lose(holder)
            return [host.pid]
        return []
