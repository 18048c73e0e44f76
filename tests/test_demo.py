"""scripts/demo, as somebody runs it who has just cloned the repository."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
DEADLINE = 120.0  # seconds until something that hangs is killed
ALL_STORIES = "14"  # seconds in which each story comes to its end; the longest takes eleven

BUSY = r"retry shop\.send_invoice/\w+: 451 The mail gateway is busy\."
GONE = r"shop\.tell_partner/\w+: 410 The partner's webhook is gone\."

STORIES = {
    "a promotion ends": [r"done The promotion SPRING has ended\."],
    "an unpaid order is cancelled": [r"done Order \w+ was not paid within 8 s: cancelled\."],
    "a message is pushed every three seconds": [
        r"again Message TEA was pushed, no\. 1\. Again at",
        r"again Message TEA was pushed, no\. 2\. Again at",
        r"again Message TEA was pushed, no\. 3\. Again at",
    ],
    "an invoice fails twice and is then sent": [
        rf"{BUSY} Attempt 1 failed, again at",
        rf"{BUSY} Attempt 2 failed, again at",
        r"done The invoice of order \w+ was sent, at attempt 3\.",
    ],
    "a webhook always fails and is given up": [
        rf"retry {GONE} Attempt 1 failed, again at",
        rf"retry {GONE} Attempt 2 failed, again at",
        rf"FAILED {GONE} Attempt 3 failed, the last\.",
        r"The partner of order \w+ is marked as unreachable\.",
    ],
}


@contextmanager
def demo(directory: Path, *arguments: str, seconds: str = "") -> Iterator[subprocess.Popen[str]]:
    """The demo with its database in ``directory``: stopped in the end, killed if it hangs."""
    environment = {**os.environ, "DEMO_DIR": str(directory), "DEMO_SECONDS": seconds}
    process = subprocess.Popen(
        [sys.executable, CHECKOUT / "scripts" / "demo", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    alarm = Timer(DEADLINE, process.kill)
    alarm.start()
    with process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            alarm.cancel()


class Told(NamedTuple):
    """The output of a demo that stopped by itself."""

    directory: Path
    output: str
    exit_code: int

    @property
    def in_one_line(self) -> str:
        return " ".join(self.output.split())


def tell(directory: Path, *arguments: str, seconds: str) -> Told:
    with demo(directory, *arguments, seconds=seconds) as process:
        output, _ = process.communicate()
    return Told(directory, output, process.returncode)


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """The output of the demo up to the line that has ``wanted`` in it."""
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if wanted in line:
            return told
    raise AssertionError(f"The demo ended without a word of {wanted!r}:\n{told}")


def query(directory: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(directory / "demo.sqlite3")) as connection:
        return connection.execute(statement).fetchall()


def wait_until_nobody_is_left(directory: Path) -> None:
    """The programs that the demo runs hold the lock of its log, each until it ends."""
    lock = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
    log = str(directory / "demo.log")
    subprocess.run([sys.executable, "-c", lock, log], timeout=DEADLINE, check=True)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The first demo, in a directory whose name needs care."""
    return tell(tmp_path_factory.mktemp("demo") / "a place%20", seconds=ALL_STORIES)


@pytest.fixture
def later(first: Told, tmp_path: Path) -> Path:
    """A directory that the first demo has left behind."""
    return Path(shutil.copytree(first.directory, tmp_path / "demo"))


@pytest.mark.parametrize("story", STORIES)
def test_each_story_is_told_in_order(first: Told, story: str) -> None:
    assert re.search(".*".join(STORIES[story]), first.in_one_line), first.output


def test_every_task_is_announced_before_it_runs(first: Told) -> None:
    announced = first.output.partition("What happens")[0]
    assert re.findall(r"^  in (\d+ \w+) +shop\.(\w+)/", announced, re.MULTILINE) == [
        ("2 s", "send_invoice"),
        ("2 s", "tell_partner"),
        ("3 s", "push_message"),
        ("5 s", "end_promotion"),
        ("8 s", "cancel_unpaid"),
        ("3 days", "ask_for_review"),
    ]


def test_nothing_starts_before_it_is_due(first: Told) -> None:
    clock = r"\d\d:\d\d:\d\d\.\d{3}|\d\d \w{3} \d\d:\d\d"
    lines = re.findall(rf"^({clock})  ({clock}) +[\d.]+ m?s  \w", first.output, re.MULTILINE)
    assert len(lines) >= 11
    midnight = any(":" not in due[:3] for due, _ in lines)
    assert midnight or all(due <= started for due, started in lines)


def test_it_stops_by_itself_and_in_order(first: Told) -> None:
    assert first.exit_code == 0, first.output
    assert "Stopped. Left in demo.sqlite3 for the next time: 2 tasks." in first.output
    assert "Traceback" not in first.output


def test_starttask_signs_off_and_leaves_nothing_claimed(first: Told) -> None:
    wait_until_nobody_is_left(first.directory)
    assert query(first.directory, "SELECT * FROM t_task_worker") == []
    assert query(first.directory, "SELECT * FROM t_task WHERE claimed_by IS NOT NULL") == []


def test_what_is_told_is_what_happened(first: Told) -> None:
    orders = "SELECT status FROM shop_order ORDER BY status"
    assert query(first.directory, orders) == [("cancelled",), ("paid",)]
    assert query(first.directory, "SELECT is_active FROM shop_promotion") == [(0,)]
    unreachable = "SELECT name FROM shop_partner WHERE unreachable_since IS NOT NULL"
    assert query(first.directory, unreachable) == [("Kettles & Co.",)]


def test_started_again_it_goes_on_and_adds_nothing(later: Path) -> None:
    ((pushed,),) = query(later, "SELECT biz_ext ->> 'pushed' FROM t_task WHERE biz_num = 'TEA'")
    told = tell(later, seconds="4")
    assert told.exit_code == 0, told.output
    assert "2 tasks left from last time." in told.output
    assert re.search(r"FAILED, and stays so .*: shop\.tell_partner/\w+$", told.output, re.MULTILINE)
    assert f"Message TEA was pushed, no. {int(pushed) + 1}." in told.output
    assert query(later, "SELECT count(*) FROM shop_order") == [(2,)]


def test_fresh_starts_over(later: Path) -> None:
    told = tell(later, "--fresh", seconds="0.1")
    assert "6 tasks added" in told.output
    assert query(later, "SELECT count(*) FROM shop_order") == [(2,)]


def log_in(browser: OpenerDirector, admin: str, user: str, password: str) -> str:
    page = browser.open(f"{admin}login/").read().decode()
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert found
    form = {"csrfmiddlewaretoken": found[1], "username": user, "password": password}
    return str(browser.open(f"{admin}login/?next=/admin/", urlencode(form).encode()).geturl())


def test_the_shop_and_the_admin_open_as_it_says(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        told = read_until(process, "What happens")
        shop, admin = re.findall(r"http://127\.0\.0\.1:\d+/\S*", told)
        found = re.search(r"log in as (\w+),\s+password (\w+)", told)
        assert found
        browser = build_opener(HTTPCookieProcessor(CookieJar()))
        with browser.open(shop) as page:
            assert "The shop" in page.read().decode()
        assert log_in(browser, admin, *found.groups()) == admin
        with browser.open(f"{admin}django_tasks/task/") as page:
            assert page.status == 200


def test_ctrl_c_stops_it_in_order(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        read_until(process, "again")
        # What the terminal sends, and once more at once, as make may do.
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGTERM)
        rest, _ = process.communicate()
    assert process.returncode == 0, rest
    assert re.search(r"^Stopped\. .*: [3-6] tasks\.$", rest, re.MULTILINE)
    assert "Traceback" not in rest
    assert "Second signal" not in (tmp_path / "demo.log").read_text()
    wait_until_nobody_is_left(tmp_path)
    assert query(tmp_path, "SELECT * FROM t_task_worker") == []


def test_killed_it_takes_its_programs_with_it(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        read_until(process, "What happens")
        process.kill()
    wait_until_nobody_is_left(tmp_path)
    assert query(tmp_path, "SELECT * FROM t_task_worker") == []


def test_a_second_demo_in_the_same_place_says_so(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        read_until(process, "What happens")
        told = tell(tmp_path, seconds="1")
        process.terminate()
        process.communicate()
    assert (told.exit_code, process.returncode) == (1, 0)
    assert told.output == "Another demo is running here, or has not quite ended yet.\n"


def test_a_reader_who_leaves_stops_it(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        read_until(process, "What happens")
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
    wait_until_nobody_is_left(tmp_path)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "seconds", "exit_code", "sentence"),
    [
        (["--frehs"], "", 2, "usage: scripts/demo [--fresh]\n"),
        ([], "soon", 1, "DEMO_SECONDS must be a number of seconds, not 'soon'.\n"),
    ],
)
def test_a_bad_wish_is_one_sentence(
    tmp_path: Path, arguments: list[str], seconds: str, exit_code: int, sentence: str
) -> None:
    told = tell(tmp_path, *arguments, seconds=seconds)
    assert (told.exit_code, told.output) == (exit_code, sentence)
    assert list(tmp_path.iterdir()) == []
