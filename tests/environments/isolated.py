"""Deeds of handlers in a process of their own, by the word in ``biz_ext["does"]``."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from django.db import connections, transaction

from django_tasks.api import TaskHandler, start
from django_tasks.handlers.running_task import RunningTask
from tests.waiting import DEADLINE, eventually


class Apart(TaskHandler):
    biz_code = "apart"
    max_attempts = 3

    def handle(self, task: RunningTask) -> None:
        globals()[task.biz_ext["does"]](Place(task.biz_ext["folder"]))


class Impatient(Apart):
    """The same, but nobody waits for it for long."""

    kill_after = 1.0


class Mourned(Apart):
    """One with a single attempt, and a hook that takes its time."""

    max_attempts = 1
    kill_after = 0.3

    def on_failure(self, task: RunningTask, exc: BaseException) -> None:
        place = Place((task.biz_ext or {})["folder"])
        place.tell(hook="begun")
        place.wait()
        place.tell(hook="ended")


class Effect(Apart):
    """The same with an end that the process writes itself."""

    biz_code = "effect"
    atomic = True


class Place:
    """A folder for what the test and the handler tell each other."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def tell(self, **facts: Any) -> None:
        new = self._folder / "new"
        new.write_text(json.dumps({"pid": os.getpid(), **facts}))
        new.rename(self._folder / "told")

    def told(self) -> dict[str, Any]:
        """For the test: what the handler has told."""
        told = self._folder / "told"
        eventually(told.exists, "the handler has told")
        facts: dict[str, Any] = json.loads(told.read_text())
        return facts

    def let_go(self) -> None:
        (self._folder / "gate").touch()

    def wait(self) -> None:
        eventually((self._folder / "gate").exists, "the test has let go")


def tells(place: Place) -> None:
    place.tell(
        argv=sys.argv,
        path=sys.path,
        optimize=sys.flags.optimize,
        python_path=os.environ.get("PYTHONPATH"),
        names={alias: str(connections[alias].settings_dict["NAME"]) for alias in connections},
    )


def starts(place: Place) -> None:
    """As a project does in ``ready()``, which this process has called as well."""
    start()
    place.tell(threads=[each.name for each in threading.enumerate()])


def reads(place: Place) -> None:
    """As ``ssh`` and ``ffmpeg`` do, whatever they read it for."""
    code = "import sys; sys.exit(len(sys.stdin.read()))"
    done = subprocess.run([sys.executable, "-I", "-c", code], timeout=DEADLINE)
    place.tell(code=done.returncode)


def leaves_a_thread(place: Place) -> None:
    def work() -> None:
        place.wait()
        place.tell(done=True)

    threading.Thread(target=work, name="left").start()


def crashes_at_exit(place: Place) -> None:
    """As the teardown of many a C library does."""
    atexit.register(os._exit, 3)


def waits(place: Place) -> None:
    place.tell()
    place.wait()


def lasts_for_ever(place: Place) -> None:
    while True:
        pass


def waits_for_ever(place: Place) -> None:
    place.tell()
    reader, _ = os.pipe()
    os.read(reader, 1)


def hangs(place: Place) -> None:
    reader, _ = os.pipe()
    os.read(reader, 1)


def ends_when_it_is_given_up(place: Place) -> None:
    place.told()


def dies(place: Place) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exits(place: Place) -> None:
    os._exit(86)


def dies_after_its_commit(place: Place) -> None:
    """Before it answers."""
    transaction.on_commit(lambda: os._exit(86))


def leaves_a_process(place: Place) -> None:
    """It has all the descriptors that this process has."""
    if os.fork() == 0:
        place.wait()
        os._exit(0)
    os._exit(0)
