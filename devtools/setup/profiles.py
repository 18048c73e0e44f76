"""The kinds of work that an environment is made for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """The groups, extras, servers and programs beside them that one kind of work needs.

    Servers come with the packages of the machine, or are fetched into a folder of ours.
    """

    groups: tuple[str, ...]
    extras: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()  # preferred versions, the best first

    @property
    def needs_mysqlclient(self) -> bool:
        return "mysql" in self.extras


DRIVERS = ("mysql", "postgres")
CLUSTERED = ("mariadb", "postgresql", "galera")

PROFILES = {
    "demo": Profile(("demo",)),
    "lint": Profile(("dev",)),
    "docs": Profile(("docs",)),
    "test": Profile(
        ("dev", "servers", "stores", "uwsgi", "browser", "deploy"),
        DRIVERS,
        ("mariadb", "postgresql"),
        ("mysql", "mariadb-newest", "postgresql-newest"),
        ("PgBouncer", "uWSGI", "Chromium", "Chinese fonts", "gettext", "systemd-analyze"),
    ),
    "package": Profile(("dev", "package")),
    "browser": Profile(("dev", "browser"), programs=("Chromium", "Chinese fonts")),
    "faults": Profile(("dev",), DRIVERS, (*CLUSTERED, "rabbitmq"), ("mysql",), ("false clocks",)),
    # A part of the faults, as CI plays them: it needs no broker.
    "part": Profile(("dev",), DRIVERS, CLUSTERED, ("mysql",), ("false clocks",)),
    # Some of the neighbours do not run on the oldest Pythons.
    "benchmark": Profile(
        ("benchmark",),
        DRIVERS,
        ("mariadb", "postgresql"),
        programs=("Celery's broker",),
        pythons=("3.13", "3.12"),
    ),
    "simulate": Profile(("benchmark",)),
}
