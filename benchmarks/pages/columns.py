"""The columns of the rows that are made, as expressions about a row's number.

Everything follows from the number, by remainders of different primes, so that the same crowd can
be made again on every database.
"""

from benchmarks.pages.dialects import Dialect
from django_tasks.values.figures import COUNTED, SUMMED
from django_tasks.values.status import Status

DAY = 86_400

# So many of 10,000 tasks each.
CODES = {
    "order_timeout": 5000,
    "mail": 2000,
    "invoice": 1000,
    "refund": 600,
    "sync_stock": 400,
    "webhook": 300,
    "reminder": 200,
    "thumbnail": 150,
    "export": 100,
    "coupon_expiry": 80,
    "search_index": 60,
    "audit": 40,
    "rating": 25,
    "digest": 15,
    "backup": 10,
    "nightly": 8,
    "tax_report": 5,
    "archive": 3,
    "rotate_keys": 2,
    "legacy": 2,
}
QUEUES = ("default", "mail", "slow")
PRIORITIES = 3
EXCEPTIONS = (
    *("builtins.ConnectionError", "builtins.TimeoutError", "builtins.ValueError"),
    *("builtins.KeyError", "decimal.InvalidOperation", "json.decoder.JSONDecodeError"),
    *("django.db.utils.OperationalError", "urllib.error.HTTPError"),
)
RECURRING = 20  # tasks whose history is long
WORKERS = 12

# So many of 99,991 tasks each; all others are due in the next thirty days.
_CLAIMED = {"running": 10, "cancelling": 2, "pausing": 2}
_SHARES = {"failed": 500, "paused": 100, **_CLAIMED, "late": 10_000, "due": 100}

_CODE_HASH = "((id * 7919) % 10000)"
_SHARE = "((id * 104729) % 99991)"
_SECONDS = "((id * 15485863) % 2592000)"  # of thirty days
_RUN_SHARE = "((id * 32452843) % 9973)"
_ERROR = (
    'Traceback (most recent call last):\\n  File "shop/refunds.py", line 117, in handle\\n'
    "    answer = bank.refund(order.payment, order.total)\\n" * 6
)


def by_share(values: dict[str, str], otherwise: str) -> str:
    """A value for each share that is named."""
    cases, last = "", 0
    for name, share in _SHARES.items():
        if name in values:
            cases += f" WHEN {_SHARE} BETWEEN {last} AND {last + share - 1} THEN {values[name]}"
        last += share
    return f"CASE{cases} ELSE {otherwise} END"


def choice(number: str, values: tuple[str, ...]) -> str:
    """One of the values by the remainder of a number."""
    cases = " ".join(f"WHEN {place} THEN '{value}'" for place, value in enumerate(values))
    return f"CASE ({number}) % {len(values)} {cases} END"


def code() -> str:
    cases, last = "", 0
    for name, share in CODES.items():
        last += share
        cases += f" WHEN {_CODE_HASH} < {last} THEN '{name}'"
    return f"CASE{cases} END"


def queue() -> str:
    """The queue of a code, which is that of all its tasks."""
    last = f"WHEN {_CODE_HASH} < 9000 THEN 'mail' ELSE 'slow'"
    return f"CASE WHEN {_CODE_HASH} < 7000 THEN 'default' {last} END"


def tasks(dialect: Dialect) -> dict[str, str]:
    """A task: the first five have a status each, so that none is missing among few."""
    statuses = {name: f"{Status[name.upper()]:d}" for name in ("failed", "paused", *_CLAIMED)}
    status = f"CASE WHEN id <= 5 THEN id ELSE {by_share(statuses, '0')} END"
    owned = _if_claimed(f"1 + id % {WORKERS + 1}")
    claims = _if_claimed(dialect.at("-(id % 600)"))
    past = f"-60 - {_SECONDS} % {DAY}"
    due = by_share(
        {**dict.fromkeys((*statuses, "late"), past), "due": "-(id % 60)"}, f"3600 + {_SECONDS}"
    )
    return {
        "id": "id",
        "biz_code": code(),
        "biz_num": dialect.padded("id"),
        "when": dialect.at(f"CASE WHEN id <= 5 THEN {past} ELSE {due} END"),
        "biz_ext": dialect.json('\'{"order": 4711, "customer": "anna"}\''),
        "create_time": dialect.at(f"-{30 * DAY} - id % {DAY}"),
        "update_time": dialect.at(f"-({_SECONDS} % {7 * DAY})"),
        "status": status,
        "queue": queue(),
        "priority": f"id % {PRIORITIES}",
        "attempts": _if_failed("3", "0"),
        "claimed_by": owned,
        "claim_time": claims,
        "last_error": _if_failed(f"'{_ERROR}'", "''"),
        "exception": _if_failed(choice("id % 1009", EXCEPTIONS), "''"),
        "schedule": "CASE WHEN (id * 611953) % 10007 = 0 THEN 'every 1h' END",
        **_the_rest_of_a_task(),
    }


def recurring(dialect: Dialect, last: int) -> dict[str, str]:
    """A task with a long history; ``last``: the number of the last one that has none."""
    return {
        "id": "id",
        "biz_code": "'nightly'",
        "biz_num": dialect.joined("'report-'", dialect.padded(f"id - {last}")),
        "when": dialect.at("1800 + id % 3600"),
        "biz_ext": dialect.json("'{}'"),
        "create_time": dialect.at(f"-{30 * DAY}"),
        "update_time": dialect.at("-60"),
        "status": "0",
        "queue": "'slow'",
        "priority": "0",
        "attempts": "0",
        "claimed_by": "NULL",
        "claim_time": "NULL",
        "last_error": "''",
        "exception": "''",
        "schedule": "'every 1h'",
        **_the_rest_of_a_task(),
    }


def _the_rest_of_a_task() -> dict[str, str]:
    numbers = dict.fromkeys(("version", "rescues", "runs"), "0")
    nothing = ("scheduled_time", "latest_time", "last_run", "options", "progress")
    return {**numbers, "name": "''", **dict.fromkeys(nothing, "NULL")}


def _if_claimed(value: str) -> str:
    """NULL for a task that nobody runs."""
    share = by_share(dict.fromkeys(_CLAIMED, value), "NULL")
    return f"CASE WHEN id IN (1, 4, 5) THEN {value} WHEN id < 5 THEN NULL ELSE {share} END"


def _if_failed(value: str, otherwise: str) -> str:
    share = by_share({"failed": value}, otherwise)
    return f"CASE WHEN id = 2 THEN {value} ELSE {share} END"


def runs(dialect: Dialect, rows: int) -> dict[str, str]:
    """A run; the last one has ended just now, the first one a week ago.

    About each hundredth is of one of the RECURRING tasks, all others of the task of their number.
    """
    is_recurring = "id % 101 = 0"
    number = dialect.joined("'report-'", dialect.padded(f"1 + id % {RECURRING}"))
    ended = f"(id - {rows}) * {7 * DAY}.0 / {rows}"
    failed = f"{_RUN_SHARE} < 150"
    outcome = f"WHEN {_RUN_SHARE} < 50 THEN 'failed' WHEN {failed} THEN 'retried' ELSE 'done'"
    return {
        "id": "id",
        "biz_code": f"CASE WHEN {is_recurring} THEN 'nightly' ELSE {code()} END",
        "biz_num": f"CASE WHEN {is_recurring} THEN {number} ELSE {dialect.padded('id')} END",
        "when": dialect.at(f"{ended} - 3 - id % 5"),
        "scheduled_time": "NULL",
        "started": dialect.at(f"{ended} - 2"),
        "ended": dialect.at(ended),
        "outcome": f"CASE {outcome} END",
        "missed": "''",
        "attempt": "1",
        "worker": dialect.joined("'web-'", dialect.padded(f"id % {WORKERS}")),
        "error": f"CASE WHEN {failed} THEN '{_ERROR}' ELSE '' END",
        "exception": f"CASE WHEN {failed} THEN {choice('id % 1009', EXCEPTIONS)} ELSE '' END",
        "detail": "NULL",
    }


def minutes(place: int, first: int, exception: str, worker: int) -> dict[str, str]:
    """The runs of one code by a worker in a minute; or its failures with an exception."""
    return {
        "worker": str(worker),
        "biz_code": f"'{list(CODES)[place]}'",
        "exception": f"'{exception}'",
        "minute": f"{first} + id",
        "span": "1",
        **_counts(exception),
    }


def hours(place: int, end: int, exception: str, number: int) -> dict[str, str]:
    """The same of all workers in one of ``number`` hours, merged."""
    hour = {"worker": "0", "span": "60", "minute": f"{end} - 60 * (1 + id % {number})"}
    return minutes(place, 0, exception, 0) | hour


def _counts(exception: str) -> dict[str, str]:
    counts = dict.fromkeys((*COUNTED, *SUMMED), "0")
    if exception:
        return counts | {"failed": "1"}
    counts |= {"done": "20 + id % 50", "failed": "id % 3", "retried": "id % 5"}
    counts |= {"late_0": "20 + id % 50", "late_3": "id % 8", "late_sum": "id % 8 * 3"}
    return counts | {"took_1": "20 + id % 50", "took_4": "id % 8", "took_sum": "id % 8 * 1.5"}
