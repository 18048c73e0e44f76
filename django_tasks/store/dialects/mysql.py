"""MySQL and MariaDB: no UPDATE … RETURNING, waits of whole seconds, errors by number."""

from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django_tasks.store.dialects.base import Bounds, Dialect, Params, placeholders, tuples

# A session of ours is closed, by us, at this age in seconds. The server ends one that has been idle
# for twice as long: no other, but one whose client is gone without a word, which may hold locks.
OLDEST_SECONDS = 120
_WAITS = (
    "SET SESSION innodb_lock_wait_timeout = %s, SESSION lock_wait_timeout = %s,"
    f" SESSION wait_timeout = {2 * OLDEST_SECONDS}"
)

# Deadlock (also Galera's failed certification) and lock waits; what NOWAIT is told by MySQL, where
# MariaDB says 1205; a failed certification of MySQL's group replication; a table that was changed
# or, in MariaDB 11.6's snapshots, a row, since the transaction began to read.
_MYSQL_CONTENTION = frozenset({1020, 1205, 1213, 1412, 3101, 3572})
# A value that a row, a column, a charset, a constraint, an index, a partition, a view or a packet
# cannot take; 1644 is what a trigger of the user's raises.
_MYSQL_DATA = frozenset(
    {
        *(1048, 1062, 1118, 1153, 1216, 1217, 1264, 1265, 1267, 1292, 1300, 1301, 1365, 1366),
        *(1367, 1369, 1406, 1411, 1451, 1452, 1526, 1644, 1690, 1713, 3140, 3141, 3144, 3150),
        *(3151, 3157, 3751, 3752, 3819, 3854, 3903, 3904, 3905, 3906, 3907, 3908, 3988, 4025),
        4038,
    }
)
# Connections, accounts, rights, shutdown, files, space, memory, killed, timed out, read-only,
# offline, idle for too long, a node without its cluster or whose group chooses a primary. Below
# 1000 are those of the server's files, from 9000 on ProxySQL's own.
_MYSQL_WORLD = frozenset(
    {
        *(1015, 1016, 1021, 1024, 1026, 1030, 1036, 1037, 1038, 1040, 1041, 1042, 1043, 1044),
        *(1045, 1046, 1047, 1049, 1053, 1077, 1078, 1079, 1080, 1114, 1129, 1130, 1135, 1152),
        *(1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1180, 1184, 1203, 1206, 1226, 1251),
        *(1290, 1317, 1524, 1637, 1698, 1792, 1820, 1835, 1836, 1862, 1874, 1878, 1881, 1927),
        *(1969, 3015, 3024, 3032, 3100, 3118, 3159, 3168, 3169, 3675, 3781, 3782, 3955, 3989),
        *(4031, 4081, 4082, 4094, 4150, 4151, 6141, 6400),
    }
)
# Syntax; columns, functions, variables, indexes, types, charsets and collations that are not known;
# their number, type or place. A table (1146) and a right (1044, 1142, 1143, 1227, 1370) are not
# among them. From 4000 on MariaDB's alone.
_MYSQL_STATEMENTS = frozenset(
    {
        *(1052, 1054, 1055, 1056, 1058, 1059, 1060, 1063, 1064, 1065, 1066, 1072, 1091, 1093),
        *(1110, 1111, 1115, 1128, 1136, 1139, 1140, 1149, 1176, 1191, 1193, 1210, 1221, 1222, 1228),
        *(1229, 1230, 1231, 1232, 1233, 1234, 1235, 1238, 1239, 1241, 1242, 1247, 1248, 1250, 1253),
        *(1271, 1272, 1273, 1277, 1286, 1295, 1305, 1318, 1327, 1329, 1414, 1425, 1426, 1427, 1438),
        *(1579, 1582, 1583, 1584, 1621, 1630, 1636, 1641, 1772, 3065, 3143, 3579, 3580, 3581, 3593),
        *(3594, 3595, 3662, 3685, 3696, 3980, 4015, 4016, 4017, 4018, 4078, 4161),
    }
)


class MySQL(Dialect):
    # Never CURRENT_TIMESTAMP: Django does not set the session's time zone.
    clock_sql = "UTC_TIMESTAMP(6)"
    returns_updates = False
    returns_deletes = False
    returns_inserts = False
    returns_only_moved = False
    groups_along_index = True
    # Where one lane has all rows of its code, some thousand of them, MySQL found them by the unique
    # key, which begins with the code, and sorted them all for each claim: 11 ms instead of 5. To
    # MariaDB, up to the 11.8 that was tried, it is a comment.
    by_lane = " /*+ INDEX({task} t_task_claim) */"
    # By time alone MySQL sorts the whole lane: 760 ms for 364,000 rows instead of 7. By all columns
    # MariaDB 10.11 does.
    order_in_lane = "status, queue, priority, biz_code, {when}"
    any_case = "(?i)"
    # Of SELECT alone, locking ones too: MySQL has no more. Other statements have the bounds of
    # their waits for locks, and the time-out of the network for all else (``connection``).
    statement_bound = "SESSION max_execution_time = CAST(1000 * %s AS UNSIGNED)"

    def insert(self, names: str, params: Params) -> int:
        template = f"INSERT INTO {names} VALUES ({placeholders(len(params))})"
        with self.connection.cursor() as cursor:
            cursor.execute(self.sql(template), params)
            return cast(int, cursor.lastrowid)

    def rolls_back(self, table: str) -> bool:
        introspection: Any = self.connection.introspection
        with self.connection.cursor() as cursor:
            return str(introspection.get_storage_engine(cursor, table)).upper() == "INNODB"

    def insert_absent(self, names: str, params: Params) -> bool:
        # Not ON DUPLICATE KEY: with FOUND_ROWS its count is 1 for a row that was there already.
        template = f"INSERT IGNORE INTO {names} VALUES ({placeholders(len(params))})"
        return self.execute(template, params) == 1

    def since(self, moment: datetime, row_id: int) -> tuple[str, list[Any]]:
        # It searches an index for no comparison of two columns at once.
        value = self.to_column(moment)
        return "{when} >= %s AND ({when} > %s OR id >= %s)", [value, value, row_id]

    def row_list(self, width: int, count: int) -> str:
        return tuples(width, count)

    @cached_property
    def lock_free_rows(self) -> str:  # type: ignore[override]
        # MariaDB 10.5 has no SKIP LOCKED; NOWAIT then fails quickly instead of waiting.
        skips = self.connection.features.has_select_for_update_skip_locked
        return " FOR UPDATE SKIP LOCKED" if skips else " FOR UPDATE NOWAIT"

    def _contention(self, cause: BaseException) -> bool:
        return _number(cause) in _MYSQL_CONTENTION

    def is_of_data(self, cause: BaseException) -> bool:
        return _number(cause) in _MYSQL_DATA

    def is_of_world(self, cause: BaseException) -> bool:
        number = _number(cause)
        if 0 < number < 1000 or 2000 <= number < 3000 or 9000 <= number < 10_000:
            return True
        return number in _MYSQL_WORLD

    def is_of_statement(self, cause: BaseException) -> bool:
        # To roll back to a savepoint that a deadlock has taken along is 1305, too.
        is_savepoint = str(cause.args[1:2]).startswith(("('SAVEPOINT", '("SAVEPOINT'))
        return _number(cause) in _MYSQL_STATEMENTS and not is_savepoint

    def number(self, cause: BaseException) -> str:
        return str(_number(cause) or "")

    def was_cut_off(self, cause: BaseException) -> bool:
        return _number(cause) in (1969, 3024)  # MariaDB's, MySQL's

    def bound(self, bounds: Bounds) -> None:
        # Of rows, and of tables: a migration waits for a report, and all who come wait behind it,
        # for a year by default, in MariaDB for a day. They are whole seconds, one or more.
        seconds = max(1, int(bounds.lock_wait))
        # Longer than a wait for a lock, which is to be told as one.
        statement = max(bounds.statement, 2.0 * seconds)
        self.execute(f"{_WAITS}, {self.statement_bound}", [seconds, seconds, statement])


class MariaDB(MySQL):
    returns_deletes = True
    returns_inserts = True
    statement_bound = "SESSION max_statement_time = %s"
    order_in_lane = Dialect.order_in_lane

    def bound(self, bounds: Bounds) -> None:
        super().bound(bounds)
        self.execute("SET SESSION idle_transaction_timeout = %s", [bounds.answer])

    @cached_property
    def is_galera(self) -> bool:  # type: ignore[override]
        return ("wsrep_on", "ON") in self.fetch("SHOW VARIABLES LIKE 'wsrep_on'")

    def catch_up(self) -> None:
        if self.is_galera:
            self.fetch("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1 FROM {task} LIMIT 1")


def _number(cause: BaseException) -> int:
    number = cause.args[0] if cause.args else 0
    return number if isinstance(number, int) else 0
