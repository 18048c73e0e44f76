"""A PostgreSQL primary and its hot standby."""

from devtools.messages import Problem, say
from devtools.servers.cluster import Cluster
from devtools.servers.postgresql import PostgreSQL
from devtools.servers.server import DATABASE, PASSWORD, USER
from devtools.servers.waiting import START_SECONDS, wait_until

RELOAD = "SELECT pg_reload_conf()"


class Primary(PostgreSQL):
    name = "replica:primary"
    title = "PostgreSQL's primary"

    def start(self) -> None:
        if self.note().get("replaced"):
            raise Problem('The standby was promoted; for a new pair "stop replica" first.')
        super().start()

    def prepare(self) -> None:
        super().prepare()
        # The slot keeps what the standby has not got yet, however long it is away.
        self.query("SELECT pg_create_physical_replication_slot('standby')")

    def demand_standby(self, sync: bool) -> None:
        """Make commits wait for the standby, or not.

        The primary alone is told so: the standby, once promoted, must not wait for one.
        """
        names = "'standby'" if sync else "''"
        for sql in (f"ALTER SYSTEM SET synchronous_standby_names = {names}", RELOAD):
            answer = self.query(sql)
            if answer.returncode != 0:
                raise Problem(f"{self.title}: {answer.stderr.strip()}")

    def sync_state(self) -> str:
        return self.value("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")


class Standby(PostgreSQL):
    name = "replica:standby"
    title = "PostgreSQL's standby"
    programs = [*PostgreSQL.programs, "pg_basebackup"]

    def __init__(self, primary: Primary) -> None:
        self.primary = primary

    def initialise(self) -> None:
        """Copy the primary, with a file that says whom to follow."""
        source = (
            f"host=127.0.0.1 port={self.primary.port} user={USER} password={PASSWORD}"
            " application_name=standby"
        )
        self.run_logged(
            [
                self.program("pg_basebackup"),
                f"--dbname={source}",
                f"--pgdata={self.directory / 'data'}",
                "--slot=standby",
                "--write-recovery-conf",
                "--checkpoint=fast",
            ]
        )

    def first_database(self) -> str:
        return DATABASE

    def prepare(self) -> None:
        """It has the database of the primary."""

    def promote(self) -> None:
        answer = self.query(f"SELECT pg_promote(true, {START_SECONDS})")
        if answer.returncode != 0 or self.value("SELECT pg_is_in_recovery()") != "f":
            raise Problem(f"{self.title} was not promoted: {self.end_of_log()}")
        self.write_note(promoted=True)
        say(f"{self.title} is the primary now.")


class Replica(Cluster):
    name = "replica"
    title = "The replica"

    def __init__(self) -> None:
        self.primary = Primary()
        self.standby = Standby(self.primary)
        self.members = [self.primary, self.standby]

    def start(self, sync: bool = False) -> None:
        self.primary.start()
        self.standby.start()
        self.primary.demand_standby(sync)
        wanted = "sync" if sync else "async"
        if not wait_until(lambda: self.primary.sync_state() == wanted, START_SECONDS):
            raise Problem(f"The standby does not follow: {self.standby.end_of_log()}")

    def promote(self) -> None:
        if self.standby.process() is None:
            raise Problem(f"{self.standby.title} is not running.")
        if self.primary.process() is not None:
            self.primary.kill()
        # Two primaries would be two truths: from here on the old one cannot be started.
        self.primary.write_note(replaced=True)
        if self.primary_now() is not self.standby:
            self.standby.promote()

    def primary_now(self) -> PostgreSQL:
        return self.standby if self.standby.note().get("promoted") else self.primary

    def print_url(self) -> None:
        super().print_url()
        now = self.primary_now()
        if now.process() is not None:
            print(f"REPLICA_URL={now.url(now.port)}", flush=True)
