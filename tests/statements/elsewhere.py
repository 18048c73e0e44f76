"""Places that the walk does not ask of this server, with the reason."""

from importlib.util import find_spec
from typing import NamedTuple

import django

from tests.statements.places import Place
from tests.vendor import MARIADB, MYSQL, MYSQL_FAMILY, POSTGRESQL, SQLITE, is_on

# The packages whose stores are read, which not every Django has.
_THEIRS = ("apscheduler", "celery", "django_apscheduler", "django_celery_beat", "sqlalchemy")
THEIRS_ARE_HERE = all(map(find_spec, _THEIRS))
DJANGO_HAS_TASKS = django.VERSION >= (6, 0)


class Only(NamedTuple):
    """Places that are asked if ``here`` is true.

    Each is a module, or a module, a function and, if only a part of that is meant, a piece of code.
    """

    here: bool
    why: str
    names: tuple[str, ...]

    def has(self, place: Place) -> bool:
        return any(_is_meant(name, place) for name in self.names)


def _is_meant(name: str, place: Place) -> bool:
    module, function, piece = (*name.split(" ", 2), "", "")[:3]
    is_within = f"{place.function}.".startswith(f"{function}.") or not function
    return place.module.startswith(module) and is_within and piece in place.code


def only() -> list[Only]:
    sqlite, postgresql, family = is_on(SQLITE), is_on(POSTGRESQL), is_on(*MYSQL_FAMILY)
    mariadb, mysql = is_on(MARIADB), is_on(MYSQL)
    return [
        *(Only(False, why, names) for why, names in _NO_STATEMENTS),
        Only(
            False,
            "SQLAlchemy asks, of another database",
            ("importers/apscheduler.py in_sqlalchemy",),
        ),
        Only(
            THEIRS_ARE_HERE,
            "packages of others",
            ("importers/found.py rows_of", "importers/celery_beat.py"),
        ),
        Only(THEIRS_ARE_HERE, "packages of others", ("importers/apscheduler.py in_django",)),
        Only(DJANGO_HAS_TASKS, "Django's tasks framework", ("functions/",)),
        Only(sqlite, "SQLite's own", _SQLITE),
        Only(postgresql, "PostgreSQL's own", _POSTGRESQL),
        Only(family, "MySQL's and MariaDB's own", _FAMILY),
        Only(mariadb, "MariaDB's own, and a Galera cluster's", _MARIADB),
        Only(mysql, "MariaDB bounds all statements", ("store/dialects/mysql.py MySQL max_exec",)),
        Only(mysql, "DELETE … RETURNING is not there", ("store/ownership.py remove",)),
        Only(not mysql, "DELETE … RETURNING, INSERT … RETURNING", _RETURNING),
        Only(not family, "UPDATE … RETURNING, ON CONFLICT", _UPDATES_RETURNING),
        Only(not sqlite, "row locks, and a clock of its own", _SERVERS),
        Only(not postgresql, "no LATERAL; times that drivers read as texts", _NOT_POSTGRESQL),
    ]


_NO_STATEMENTS = (
    (
        "a method of others",
        ("admin/codes.py limits_words", "admin/workers.py WorkerAdmin._tasks_of"),
    ),
    ("a method of others", ("logs/fields.py", "reads/overview.py overview seen.claims")),
    ("a method of others", ("management/base.py", "schedules/every.py")),
    ("said to people", ("checks/database_settings.py", "checks/database_answers.py _charset_of")),
)
_SQLITE = (
    *("store/dialects/sqlite.py", "store/lanes.py _HOPPED_LANES"),
    "checks/database_answers.py _journal_mode",
)
_POSTGRESQL = (
    *("store/dialects/postgresql.py", "wakeup/postgres.py", "store/timeouts.py _bounded_locally"),
    *("store/backlog.py _each_at_once", "store/lanes.py _SOUGHT_LANES"),
    *("store/lanes.py _LATER", "store/lanes.py _LEAP"),
    "store/search.py _sorts_by_letters",
)
_FAMILY = (
    *("store/dialects/mysql.py _WAITS", "store/dialects/mysql.py MySQL"),
    *("store/timeouts.py _MYSQL_ASK", "store/timeouts.py _MYSQL_SET"),
    *("store/timeouts.py _bounded_session", "store/transactions.py _begin"),
    *("store/claim.py _candidates", "store/claim.py _behind_suspects"),
    *("store/claim.py _take_unlocked", "store/claim.py _take", "store/lanes.py _GROUPED_LANES"),
    *("store/ownership.py _hand_over _hand_over_joined", "store/ownership.py _hand_over_joined"),
    *("store/ownership.py _locked", "store/upsert.py _look_then_write"),
    *("store/upsert.py _locked_rows", "store/upsert.py _conflict_clause VALUES"),
    *("store/upsert.py _conflict_clause DUPLICATE", "checks/database_answers.py _text_columns"),
)
_MARIADB = (
    *("store/dialects/mysql.py MariaDB", "store/claimed_rows.py await_claim"),
    "store/claimed_rows.py is_cancelled",
)
_RETURNING = (
    *("store/ownership.py _removed_returning", "store/upsert.py _upsert dialect.fetch"),
    "store/upsert.py _returning_decided",
)
_UPDATES_RETURNING = (
    "store/claim.py _claim_returning",
    *("store/dialects/base.py Dialect.insert", "store/dialects/base.py Dialect.insert_absent"),
    "store/ownership.py _hand_over_returning",
    *("store/ownership.py _hand_over _hand_over_returning", "store/upsert.py upsert RETURNING"),
    "store/upsert.py _conflict_clause CONFLICT",
)
_SERVERS = (
    *("store/dialects/base.py Dialect FOR UPDATE", "store/dialects/base.py Dialect.read_clock"),
)
_NOT_POSTGRESQL = (
    *(
        "store/backlog.py _longer",
        "store/backlog.py _each",
        "store/dialects/base.py Dialect.readable",
    ),
)
