"""Each error that a MySQL or a MariaDB can be brought to raise is told as what it is.

Settings of the whole server are changed in ways that disturb an ordinary user alone, whom this
module makes: the user of the tests may write to a server that is read-only, and is let in while it
is offline. The rest is done to the sessions of the module, its temporary tables, and its database.

Not here: max_connections (1040), a shutdown (1053) and super_read_only (1290 as well) are played by
``tests.faults``, on a server of their own. A certification that fails (3101) and a group without a
primary (4094) need a group; a full disk (1114, 3675, 3), one of its own; InnoDB in its read-only
mode (1015, 1836), a restart. ``tests/store/test_errors.py`` has their numbers.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple

import pytest
from django.db import Error, connection, connections

from django_tasks.models import Task
from django_tasks.store.errors import Kind, kind_of, was_cut_off
from tests.conftest import Elsewhere
from tests.environments.conftest import another_way
from tests.environments.workers import Held, Start, ident
from tests.vendor import MYSQL, MYSQL_FAMILY, database, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, handler

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(*MYSQL_FAMILY, because="the others have no such numbers"),
]

WORLD, CONTENTION, DATA, REJECTED, UNKNOWN = Kind
USER = PASSWORD = "ordinary"


class Server:
    """The tests' server: connections of an ordinary user to it, and an administrator's."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self.elsewhere = elsewhere
        self.name: str = connection.settings_dict["NAME"]
        self._administrator: Any = connections.create_connection("default")
        self._opened: list[Any] = []

    def administer(self, *statements: str) -> Any:
        return run(self._administrator, *statements)

    def session(self, *statements: str, **settings: Any) -> Any:
        """Open a session of the ordinary user that has sent these; ``settings`` are Django's."""
        made: Any = connections.create_connection("default")
        made.settings_dict = {**made.settings_dict, "USER": USER, "PASSWORD": PASSWORD, **settings}
        made.inc_thread_sharing()
        self._opened.append(made)
        made.ensure_connection()
        run(made, *statements)
        return made

    @contextmanager
    def account(self, words: str, back: str) -> Iterator[None]:
        """Change the user's account meanwhile."""
        with self.changed(f"ALTER USER {USER} {words}", f"ALTER USER {USER} {back}"):
            yield

    @contextmanager
    def changed(self, statement: str, back: str) -> Iterator[None]:
        self.administer(statement)
        try:
            yield
        finally:
            self.administer(back)

    def is_there(self, number: int, state: str = "") -> bool:
        """Tell if there is a session of that number, and in that state."""
        rows = self.administer("SHOW PROCESSLIST")
        return any(row[0] == number and row[6].startswith(state) for row in rows)

    def kill_all(self) -> None:
        """End the sessions of the ordinary user."""
        for row in self.administer("SHOW PROCESSLIST"):
            if row[1] == USER:
                with suppress(Error):  # it has gone by itself
                    self.administer(f"KILL {row[0]}")

    def leave(self) -> None:
        self.close()
        self._administrator.close()

    def close(self) -> None:
        for made in self._opened:
            with suppress(Error):  # it is broken, and MySQLdb says so
                made.close()


def run(session: Any, *statements: str) -> Any:
    """The rows of the last statement."""
    rows = None
    for statement in statements:
        with session.cursor() as cursor:
            cursor.execute(statement)
            rows = cursor.fetchall() if cursor.description else None
    return rows


@pytest.fixture
def server(transactional_db: None, elsewhere: Elsewhere) -> Iterator[Server]:
    server = Server(elsewhere)
    server.administer(
        f"DROP USER IF EXISTS {USER}",
        f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL ON {server.name}.* TO {USER}",
        "CREATE TABLE locked (id INT PRIMARY KEY, value INT)",
        "INSERT INTO locked VALUES (1, 0), (2, 0)",
    )
    yield server
    server.close()
    server.administer("DROP TABLE locked", f"DROP USER {USER}")
    server.leave()


# The errors


class Case(NamedTuple):
    name: str
    kind: Kind
    provoke: Callable[[Server], Any]
    # By server; the one that is left out has no such error.
    numbers: dict[str, int]


CASES: list[Case] = []
Provocation = Callable[[Server], Any]


def told(kind: Kind, **numbers: int) -> Callable[[Provocation], Provocation]:
    """Have a provocation tried: it raises an error of this kind, with a number of ``both`` servers,
    or one of each.
    """

    def register(provoke: Provocation) -> Provocation:
        by_server = dict.fromkeys(MYSQL_FAMILY, numbers["both"]) if "both" in numbers else numbers
        CASES.append(Case(provoke.__name__, kind, provoke, by_server))
        return provoke

    return register


def sent(name: str, kind: Kind, *statements: str, **numbers: int) -> None:
    """The same of statements that a session sends."""

    def provoke(server: Server) -> None:
        server.session(*statements)

    provoke.__name__ = name
    told(kind, **numbers)(provoke)


def stored(name: str, column: str, value: str, **numbers: int) -> None:
    """The same of a value that the column of a temporary table does not take."""
    make = f"CREATE TEMPORARY TABLE made ({column}) CHARACTER SET latin1"
    sent(name, DATA, make, f"INSERT INTO made VALUES ({value})", **numbers)  # noqa: S608


# Accounts and connections


@told(WORLD, both=1045)
def wrong_password(server: Server) -> None:
    server.session(PASSWORD="wrong")


@told(WORLD, both=1044)
def database_of_others(server: Server) -> None:
    server.session(NAME="mysql")


@told(WORLD, both=1044)
def database_that_is_not_there(server: Server) -> None:
    server.session(NAME="nowhere")


@told(WORLD, both=1049)
def database_that_is_not_there_for_an_administrator(server: Server) -> None:
    usual = connection.settings_dict
    server.session(NAME="nowhere", USER=usual["USER"], PASSWORD=usual["PASSWORD"])


@told(WORLD, both=2002)
def nobody_listens(server: Server) -> None:
    server.session(PORT="1")


@told(WORLD, both=2005)
def host_without_an_address(server: Server) -> None:
    server.session(HOST="db.invalid")


@told(WORLD, mysql=3118, mariadb=4151)
def locked_account(server: Server) -> None:
    with server.account("ACCOUNT LOCK", "ACCOUNT UNLOCK"):
        server.session()


@told(WORLD, mysql=1862, mariadb=1820)
def expired_password(server: Server) -> None:
    with server.account("PASSWORD EXPIRE", f"IDENTIFIED BY '{PASSWORD}'"):
        server.session("SELECT 1")


@told(WORLD, mysql=3955)
def account_locked_by_wrong_passwords(server: Server) -> None:
    with server.account("FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1", "ACCOUNT UNLOCK"):
        with suppress(Error):
            server.session(PASSWORD="wrong")
        server.session()


@told(WORLD, both=1226)
def too_many_connections_of_a_user(server: Server) -> None:
    with server.account("WITH MAX_USER_CONNECTIONS 1", "WITH MAX_USER_CONNECTIONS 0"):
        server.session()
        server.session()


@told(WORLD, both=1226)
def too_many_statements_of_a_user(server: Server) -> None:
    with server.account("WITH MAX_QUERIES_PER_HOUR 3", "WITH MAX_QUERIES_PER_HOUR 0"):
        server.session(*["SELECT 1"] * 5)


# Rights and statements: nobody's data, and no outage by their numbers

sent("right_that_is_missing", UNKNOWN, "SELECT * FROM mysql.user", both=1142)
sent("right_of_an_administrator", UNKNOWN, "SET GLOBAL read_only = 0", both=1227)
sent("table_that_is_not_there", UNKNOWN, "SELECT * FROM nothing", both=1146)
sent("column_that_is_not_there", REJECTED, "SELECT nothing FROM locked", both=1054)
sent("syntax", REJECTED, "SELECT FROM", both=1064)

# A server that refuses


@contextmanager
def read_only(server: Server) -> Iterator[None]:
    with server.changed("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"):
        yield


@contextmanager
def offline(server: Server) -> Iterator[None]:
    with server.changed("SET GLOBAL offline_mode = 1", "SET GLOBAL offline_mode = 0"):
        yield


@told(WORLD, both=1290)
def read_only_server(server: Server) -> None:
    session = server.session()
    with read_only(server):
        run(session, "UPDATE locked SET value = 1")


@told(WORLD, both=1290)
def read_only_since_the_transaction_began(server: Server) -> None:
    session = server.session("START TRANSACTION", "UPDATE locked SET value = 1")
    with read_only(server):
        run(session, "COMMIT")


sent(
    *("read_only_session", WORLD),
    *("SET SESSION TRANSACTION READ ONLY", "UPDATE locked SET value = 1"),
    both=1792,
)


@told(WORLD, mysql=3989)
def read_only_database(server: Server) -> None:
    alter = f"ALTER SCHEMA {server.name} READ ONLY ="
    with server.changed(f"{alter} 1", f"{alter} 0"):
        server.session("UPDATE locked SET value = 1")


@told(WORLD, mysql=2013)
def session_that_the_offline_mode_ends(server: Server) -> None:
    session = server.session()
    with offline(server):
        run(session, "SELECT 1")


@told(WORLD, mysql=3032)
def offline_server(server: Server) -> None:
    with offline(server):
        server.session()


# Statements and sessions that are ended


def ended_by(how: str, server: Server) -> None:
    """A statement that runs is killed, or all of its session."""
    session = server.session()
    number = number_of(session)
    ended = server.elsewhere(run, session, "SELECT SLEEP(30) FROM locked")
    eventually(lambda: server.is_there(number, "User sleep"), "it sleeps")
    server.administer(f"{how} {number}")
    ended.result(DEADLINE)


def number_of(session: Any) -> int:
    ((number,),) = run(session, "SELECT CONNECTION_ID()")
    return int(number)


@told(WORLD, both=1317)
def killed_statement(server: Server) -> None:
    ended_by("KILL QUERY", server)


@told(WORLD, both=2013)
def killed_session(server: Server) -> None:
    ended_by("KILL", server)


@told(WORLD, both=2013)
def session_that_was_killed_while_it_was_idle(server: Server) -> None:
    session = server.session()
    number = number_of(session)
    server.administer(f"KILL {number}")
    eventually(lambda: not server.is_there(number), "the session is gone")
    run(session, "SELECT 1")


@told(WORLD, mysql=4031, mariadb=2006)
def session_that_was_idle_for_too_long(server: Server) -> None:
    session = server.session("SET SESSION wait_timeout = 1")
    number = number_of(session)
    eventually(lambda: not server.is_there(number), "the session is gone")
    run(session, "SELECT 1")


LONG = "SELECT SLEEP(30) FROM locked"
TOO_LONG = "statement_that_took_too_long"
sent(TOO_LONG, WORLD, "SET SESSION max_execution_time = 10", LONG, mysql=3024)
sent(TOO_LONG, WORLD, "SET SESSION max_statement_time = 0.01", LONG, mariadb=1969)

# Memory and space

SMALL = "SET SESSION max_heap_table_size = 16384"
MEMORY = "CREATE TEMPORARY TABLE made (value CHAR(250)) ENGINE = MEMORY"
FILL = "INSERT INTO made SELECT REPEAT('a', 250) FROM information_schema.columns"
sent("full_table", WORLD, SMALL, MEMORY, FILL, both=1114)
sent(
    *("too_little_memory_to_sort", WORLD, "SET SESSION sort_buffer_size = 32768"),
    "CREATE TEMPORARY TABLE made (value JSON)",
    "INSERT INTO made VALUES (JSON_ARRAY(REPEAT('a', 70000))), (JSON_ARRAY(REPEAT('b', 70000)))",
    "SELECT value FROM made ORDER BY value",
    mysql=1038,
)

# Others in the way

CHANGE = "UPDATE locked SET value = 1 WHERE id = {}"


def beside_a_lock(server: Server, *statements: str) -> None:
    server.session("START TRANSACTION", CHANGE.format(1))
    server.session(*statements)


@told(CONTENTION, both=1205)
def lock_that_was_waited_for_too_long(server: Server) -> None:
    beside_a_lock(server, "SET SESSION innodb_lock_wait_timeout = 1", CHANGE.format(1))


@told(CONTENTION, mysql=3572, mariadb=1205)
def lock_that_is_not_waited_for(server: Server) -> None:
    beside_a_lock(server, "SELECT * FROM locked WHERE id = 1 FOR UPDATE NOWAIT")


@told(CONTENTION, both=1205)
def table_that_was_waited_for_too_long(server: Server) -> None:
    bound = "SET SESSION lock_wait_timeout = 1"
    beside_a_lock(server, bound, "ALTER TABLE locked COMMENT = 'migrated'")


@told(CONTENTION, both=1213)
def deadlock(server: Server) -> None:
    one = server.session("START TRANSACTION", CHANGE.format(1))
    # The one with fewer changes is the victim.
    other = server.session(
        "START TRANSACTION", CHANGE.format(2), "INSERT INTO locked VALUES (3, 0)"
    )
    victim = server.elsewhere(run, one, CHANGE.format(2))
    run(other, CHANGE.format(1))
    victim.result(DEADLINE)


@told(CONTENTION, both=1412)
def table_that_was_changed_since_the_transaction_began(server: Server) -> None:
    session = server.session(
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    )
    server.administer("ALTER TABLE locked FORCE")
    run(session, "SELECT * FROM locked")


# Data

NEVER = "NOT NULL"
stored("characters_that_are_not_in_the_charset", "a TEXT", "'库存不足'", both=1366)
stored("text_for_a_number", "a INT", "'abc'", both=1366)
stored("text_that_is_too_long", "a VARCHAR(3)", "'abcd'", both=1406)
stored("number_that_is_too_large", "a TINYINT", "1000", both=1264)
stored("word_that_is_none_of_its_column", "a ENUM('b')", "'c'", both=1265)
stored("date_that_there_is_not", "a DATETIME", "'2020-02-31'", both=1292)
stored("date_that_cannot_be_read", "a DATETIME", "STR_TO_DATE('x', '%%Y')", both=1411)
stored("date_after_the_last", "a DATETIME", "'9999-12-31' + INTERVAL 1 DAY", both=1441)
stored("null", f"a INT {NEVER}", "NULL", both=1048)
stored("key_that_is_there_already", "a INT PRIMARY KEY", "1), (1", both=1062)
stored("division_by_zero", "a INT", "1 / 0", both=1365)
stored("check", "a INT CHECK (a > 0)", "0", mysql=3819, mariadb=4025)
stored("no_json", "a JSON", "'nope'", mysql=3140, mariadb=4025)
stored("json_with_half_a_character", "a JSON", "'\"\\\\ud800\"'", mysql=3140, mariadb=4025)
stored("json_with_a_number_of_400_digits", "a JSON", f"'{'9' * 400}'", mysql=3140)
DEEP = f"'{'[' * 101}{']' * 101}'"
stored("json_that_is_too_deep", "a JSON", DEEP, mysql=3157, mariadb=4025)
stored("json_of_bytes", "a JSON", "x'ff'", mysql=3144, mariadb=1366)
INDEXED = "a JSON, INDEX ((CAST(a->'$.n' AS {})))"
NUMBERS, SHORT = INDEXED.format("UNSIGNED ARRAY"), INDEXED.format("CHAR(3)")
stored("json_with_words_for_an_index_of_numbers", NUMBERS, """'{"n": ["x"]}'""", mysql=3903)
stored("json_that_is_too_large_for_its_index", NUMBERS, """'{"n": [1e30]}'""", mysql=3904)
stored("json_that_is_too_long_for_its_index", SHORT, """'{"n": "abcdef"}'""", mysql=3751)
stored("result_larger_than_a_packet", "a LONGTEXT", "REPEAT('a', 200000000)", both=1301)
MANY = ", ".join(f"a{number} TEXT" for number in range(40))
WIDE = ", ".join(["REPEAT('a', 800)"] * 40)
sent(
    *("row_that_is_too_large", DATA),
    f"CREATE TEMPORARY TABLE made ({MANY}) ROW_FORMAT = COMPACT CHARACTER SET latin1",
    f"INSERT INTO made VALUES ({WIDE})",  # noqa: S608
    both=1118,
)
sent("json_of_a_function", DATA, "SELECT CAST('nope' AS JSON)", mysql=3141)
sent("bytes_that_are_no_text", DATA, "SELECT _utf8mb4 x'ff'", both=1300)
sent("number_that_nothing_holds", DATA, "SELECT 1e400", both=1367)
sent("sum_that_is_too_large", DATA, "SELECT 9223372036854775807 + 1", both=1690)
sent("error_of_a_trigger", DATA, "SIGNAL SQLSTATE '45000'", both=1644)
COLLATED = "_utf8mb4'a' COLLATE utf8mb4_bin = _utf8mb4'b' COLLATE utf8mb4_general_ci"
sent("collations_that_do_not_meet", DATA, f"SELECT {COLLATED}", both=1267)


@told(DATA, both=1452)
def row_without_its_parent(server: Server) -> None:
    with a_table(server, "child", "parent INT, FOREIGN KEY (parent) REFERENCES locked (id)"):
        server.session("INSERT INTO child VALUES (5)")


@told(DATA, both=1451)
def parent_of_a_row(server: Server) -> None:
    with a_table(server, "child", "parent INT, FOREIGN KEY (parent) REFERENCES locked (id)"):
        server.session("INSERT INTO child VALUES (1)", "DELETE FROM locked")


@told(DATA, both=1526)
def row_without_a_partition(server: Server) -> None:
    with a_table(server, "parts", "a INT) PARTITION BY LIST (a) (PARTITION one VALUES IN (1)"):
        server.session("INSERT INTO parts VALUES (2)")


@contextmanager
def a_table(server: Server, name: str, columns: str) -> Iterator[None]:
    try:
        with server.changed(f"CREATE TABLE {name} ({columns})", "SELECT 1"):
            yield
    finally:
        server.close()  # their locks would keep it
        server.administer(f"DROP TABLE IF EXISTS {name}")


@told(DATA, both=1153)
def statement_larger_than_a_packet(server: Server) -> None:
    ((largest,),) = server.administer("SELECT @@max_allowed_packet")
    with server.session().cursor() as cursor:
        cursor.execute("SELECT LENGTH(%s)", ["a" * (largest + 1000)])


def cases() -> list[Any]:
    return [
        pytest.param(case, id=case.name, marks=only_on(*case.numbers, because="it has the error"))
        for case in CASES
    ]


@pytest.mark.parametrize("case", cases())
def test_the_number_of_an_error_says_what_it_is(case: Case, server: Server) -> None:
    with pytest.raises(Error) as caught:
        case.provoke(server)
    number = (caught.value.__cause__ or caught.value).args[0]
    kind = kind_of(caught.value, using="default")
    assert (number, kind) == (case.numbers[database()], case.kind), caught.value
    assert was_cut_off(caught.value, using="default") == (case.name == TOO_LONG)


# What a worker makes of them


@contextmanager
def locked_out(server: Server) -> Iterator[None]:
    with server.account("ACCOUNT LOCK", "ACCOUNT UNLOCK"):
        server.kill_all()
        yield


REFUSING = [
    pytest.param(read_only, id="read-only"),
    pytest.param(locked_out, id="locked out"),
    pytest.param(offline, id="offline", marks=only_on(MYSQL, because="it alone has this mode")),
]


@pytest.mark.parametrize("refusing", REFUSING)
def test_a_worker_keeps_an_end_while_the_server_refuses_it_and_writes_it_then(
    refusing: Callable[[Server], AbstractContextManager[None]],
    server: Server,
    start_worker: Start,
    held: Held,
    handlers: Any,
) -> None:
    begun: list[str] = []

    def run_once(task: Any) -> None:
        begun.append(str(task))
        held(task)

    handlers(handler(run_once, "long", max_attempts=1))
    with another_way({**connection.settings_dict, "USER": USER, "PASSWORD": PASSWORD}):
        worker = start_worker(lease=30.0)
        added("1", "long")
        eventually(lambda: held.inside, "it runs")
        before = ident(worker)
        with refusing(server):
            held.open.set()
            eventually(worker._outage.lasts, "the worker is refused")
        connection.close()
        eventually(lambda: not Task.objects.exists(), "its end is written")
    assert begun == ["long/1"]
    assert ident(worker) == before
