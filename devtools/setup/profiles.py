"""The kinds of work that an environment is made for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """The groups, extras, servers and programs beside them that one kind of work needs."""

    groups: tuple[str, ...]
    extras: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()  # preferred versions, the best first

    @property
    def needs_mysqlclient(self) -> bool:
        return "mysql" in self.extras


DRIVERS = ("mysql", "postgres")

PROFILES = {
    "demo": Profile(("demo",)),
    "lint": Profile(("dev",)),
    "test": Profile(
        ("dev", "servers", "stores", "uwsgi"),
        DRIVERS,
        ("mariadb", "postgresql"),
        ("PgBouncer", "uWSGI"),
    ),
    "faults": Profile(("dev",), DRIVERS, ("mariadb", "postgresql", "galera"), ("false clocks",)),
    # Some of the neighbours do not run on the oldest Pythons.
    "benchmark": Profile(
        ("benchmark",),
        DRIVERS,
        ("mariadb", "postgresql"),
        ("Celery's broker",),
        pythons=("3.13", "3.12"),
    ),
    "simulate": Profile(("benchmark",)),
}
