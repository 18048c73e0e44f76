"""Faults of more than one statement: outages, switchovers, clocks, and hosts that stand still."""

from collections.abc import Callable, Sequence

from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import Host, current
from tests.simulated_cluster.threads import sleep
from tests.simulated_cluster.weather import Weather


class Disasters:
    """Strikes now and then. ``hosts`` tells the workers that run, ``stop`` ends one in order."""

    def __init__(
        self,
        weather: Weather,
        hosts: Callable[[], Sequence[Host]],
        kill: Callable[[Host], None],
        stop: Callable[[Host], None],
    ) -> None:
        self._weather = weather
        self._hosts = hosts
        self._kill = kill
        self._stop = stop
        self._lease = weather.lease
        choices = stage.choices
        kinds = (
            *(self.outage, self.switchover, self.standstill, self.stop_one, self.kill_one),
            *(self.cut_off, self.database_clock, self.host_clock, self.deployment, self.nothing),
        )
        self._kinds = [kind for kind in kinds if choices.chance(0.5)] or [self.nothing]

    def strike(self) -> None:
        """Choose one, and let it come."""
        kind = stage.choices.pick(self._kinds)
        stage.journal.met[kind.__name__.replace("_", " ")] += 1
        stage.journal.tell(f"DISASTER {kind.__name__}")
        kind()

    def outage(self) -> None:
        """The database is away for a while, and all sessions with it."""
        self._away("outage", stage.choices.scale(0.5, 2 * self._lease))

    def switchover(self) -> None:
        """Another server takes over: at once, or with the old one up and read-only; its clock is
        a little different."""
        choices, database = stage.choices, stage.database
        database.set_clock(database.offset + choices.between(-0.05, 0.05))
        if choices.chance(0.5):
            for session in list(database.sessions):
                if session.in_transaction:
                    database.lose(session)
                session.is_read_only = True
            stage.journal.fault("switchover", stage.scheduler.now)
        else:
            self._away("switchover", choices.scale(0.05, 10.0))

    def _away(self, name: str, seconds: float) -> None:
        database = stage.database
        database.down_until = max(database.down_until, stage.scheduler.now + seconds)
        database.lose_sessions()
        stage.journal.fault(name, database.down_until)

    def standstill(self) -> None:
        """Several hosts stand still, each for its own time: they wake up one after the other."""
        choices = stage.choices
        share = choices.pick((1.0, 0.5))
        for host in self._hosts():
            if choices.chance(share):
                self._weather.freeze(host, choices.scale(0.5 * self._lease, 3 * self._lease))

    def cut_off(self) -> None:
        """One host does not reach the database."""
        if hosts := self._hosts():
            host = stage.choices.pick(hosts)
            host.cut_until = stage.scheduler.now + stage.choices.scale(1.0, 2 * self._lease)
            stage.journal.fault("cut", host.cut_until, [host.pid])

    def database_clock(self) -> None:
        """Somebody sets the database's clock."""
        seconds = stage.choices.pick((1.0, -1.0)) * stage.choices.scale(0.1, 3 * self._lease)
        stage.database.set_clock(stage.database.offset + seconds)

    def host_clock(self) -> None:
        """Somebody sets a host's time of day."""
        if hosts := self._hosts():
            stage.choices.pick(hosts).wall += stage.choices.between(-7200.0, 7200.0)

    def kill_one(self) -> None:
        if hosts := self._hosts():
            self._kill(stage.choices.pick(hosts))

    def stop_one(self) -> None:
        """A worker is told to stop; another one follows it."""
        if hosts := self._hosts():
            self._stop(stage.choices.pick(hosts))

    def deployment(self) -> None:
        """All workers are told to stop, one after the other. What is long is cut off each time."""
        stage.scheduler.spawn("deployment", current().host, self._deploy)

    def _deploy(self) -> None:
        longest = stage.choices.scale(0.5, self._lease / 2)
        for host in list(self._hosts()):
            if host in self._hosts():
                self._stop(host)
            sleep(stage.choices.between(0.0, longest))

    def nothing(self) -> None:
        """Not everything goes wrong."""
