"""An outage of a database: wait longer each time, and say why."""

import re
from random import uniform
from typing import Any

from django.db import connections

from django_tasks import logs
from django_tasks.host.clocks import ticks

FIRST_DELAY = 0.1
# A try costs what a poll costs; what is waited here is added to every outage.
LONGEST_DELAY = 2.0
# An outage that lasts is said again: nobody may have read the first line.
SAY_AGAIN_SECONDS = 60.0

# By the errors of MariaDB and MySQL, and by the states of SQL that PostgreSQL sends.
REASONS: dict[int | str, logs.Reason] = {
    1044: "denied",
    1045: "denied",
    1698: "denied",
    **dict.fromkeys((1820, 1862, 3118, 3159, 3955, 4151), "denied"),  # locked, expired, without TLS
    "28000": "denied",
    "28P01": "denied",
    1142: "forbidden",
    1143: "forbidden",
    1227: "forbidden",
    1370: "forbidden",
    "42501": "forbidden",
    1049: "unknown",
    "3D000": "unknown",
    1040: "refused",
    1203: "refused",
    1226: "refused",
    3032: "refused",
    "53300": "refused",
    "57P03": "refused",
    1146: "empty",
    "42P01": "empty",
}
# While it connects libpq tells no state, only the server's text. The first that fits counts.
TEXTS: tuple[tuple[str, logs.Reason], ...] = (
    ("password authentication failed", "denied"),
    ("no password supplied", "denied"),
    ("no pg_hba.conf entry", "denied"),
    ("authentication failed for user", "denied"),
    ('FATAL:  role "', "denied"),
    ("permission denied for database", "denied"),
    ('FATAL:  database "', "unknown"),
    ("FATAL:", "refused"),
    ("unable to open database file", "no file"),
    ("file is not a database", "no file"),
    ("no such table", "empty"),
)
# The table in the text of the error, which each server and each language puts in other marks; and
# the user, where the settings leave it to a file of the driver's.
_TABLE = re.compile(r"""(?:no such table: |['"«„“]\s?)(?!Table )([^'"«»“”\s]+)""")
_USER = re.compile(r"""user ['"]([^'"]+)""")


class Outage:
    """Of one database, seen by one poller."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._since: float | None = None
        self._said = 0.0
        self._reason: logs.Reason = "silent"
        self._failures = 0

    def delay_after(self, error: BaseException, kept: int) -> float:
        """Seconds to wait before the next try; ``kept`` ends are waiting to be written."""
        self._say(error, kept)
        delay: float = min(LONGEST_DELAY, FIRST_DELAY * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        return uniform(0.5, 1.0) * delay

    def lasts(self) -> bool:
        """Tell if the last try has failed. For any thread."""
        return self._since is not None

    def is_over(self) -> None:
        """The database has answered."""
        if self._since is not None:
            logs.database_back(self._using, ticks() - self._since)
        self._since = None
        self._failures = 0

    def _say(self, error: BaseException, kept: int) -> None:
        tick, reason = ticks(), reason_of(error)
        if self._since is None:
            self._since = tick
        elif reason == self._reason and 0 <= tick - self._said < SAY_AGAIN_SECONDS:
            return
        self._said, self._reason = tick, reason
        name = _name(self._using, reason, str(error))
        logs.database_down(self._using, reason, name, error, kept, tick - self._since)


def _name(using: str, reason: logs.Reason, text: str) -> str:
    named = (_TABLE if reason == "empty" else _USER).search(text)
    in_text = named[1] if named else "?"
    if reason == "empty":
        return in_text
    settings = connections[using].settings_dict
    return str(settings["NAME" if reason == "unknown" else "USER"] or in_text)


def reason_of(error: BaseException) -> logs.Reason:
    """The reason for which a database cannot be worked with, by the driver's error or Django's."""
    for known in (*error.args[:1], _state(error)):
        if isinstance(known, int | str) and known in REASONS:
            return REASONS[known]
    text = str(error)
    return next((reason for part, reason in TEXTS if part in text), "silent")


def _state(error: BaseException) -> Any:
    """The state of SQL that psycopg knows, 3 or 2, of its own error or of the one around it."""
    for each in (error, error.__cause__):
        if state := getattr(each, "sqlstate", None) or getattr(each, "pgcode", None):
            return state
    return None
