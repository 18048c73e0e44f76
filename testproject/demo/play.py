"""See delayed tasks at work: a small shop, its tasks in an SQLite database, and starttask.

    scripts/demo            go on where the last one stopped; the first one adds the tasks
    scripts/demo --fresh    forget everything and start over

Ctrl-C stops it. demo.sqlite3 and demo.log are kept in the checkout.

Environment: DEMO_DIR is another place for those two; DEMO_SECONDS=20 makes it stop by itself.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent.parent
DIRECTORY = Path(os.environ.get("DEMO_DIR") or CHECKOUT).absolute()
DATABASE = DIRECTORY / "demo.sqlite3"
LOG = DIRECTORY / "demo.log"


class Problem(Exception):
    """Something the user must read; the text is the whole message."""


def main() -> int:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if sys.argv[1:] not in ([], ["--fresh"]):
        print("usage: scripts/demo [--fresh]", file=sys.stderr)
        return 2
    try:
        seconds = _duration()
        with _alone() as log:
            _prepare(is_fresh="--fresh" in sys.argv)
            return _perform(log, seconds)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the programs were started
        return 0


def _duration() -> float | None:
    text = os.environ.get("DEMO_SECONDS")
    try:
        return float(text) if text else None
    except ValueError:
        raise Problem(f"DEMO_SECONDS must be a number of seconds, not {text!r}.") from None


@contextmanager
def _alone() -> Iterator[IO[str]]:
    """The log, locked: two demos would run each other's tasks.

    The programs share the lock, each until it ends.
    """
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with LOG.open("a", encoding="utf-8") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem("Another demo is running here, or has not quite ended yet.") from None
        log.truncate(0)
        fcntl.flock(log, fcntl.LOCK_SH)
        yield log


def _prepare(is_fresh: bool) -> None:
    """Make this a Django process, and the database one with tables and goods."""
    if is_fresh:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{DATABASE}{suffix}").unlink(missing_ok=True)
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.demo.settings"
    os.environ.pop("DEBUG", None)
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from testproject.demo import scenes

    scenes.prepare()


def _perform(log: IO[str], seconds: float | None) -> int:
    """Run both programs until the user, or the clock, wishes them to stop."""
    from testproject.demo import scenes, words
    from testproject.demo.programs import Programs
    from testproject.demo.screen import Screen

    left, failed = scenes.waiting(), scenes.failed()  # before starttask begins to run them

    def open_the_play(address: str) -> None:
        words.show_programs(address)
        if left:
            words.show_left(left, failed)
        else:
            scenes.play()
            words.show_added(scenes.waiting())
        words.show_heading()

    screen = Screen(log, open_the_play, seconds)
    programs = Programs(screen)
    programs.run()
    if name := programs.ended_by_itself:
        what = f"{name} has ended by itself" if screen.is_open else "The demo could not start"
        raise Problem(f"{what}. The end of {LOG}:\n\n{_tail(LOG)}")
    return _close(programs.code_of_starttask)


def _close(code: int) -> int:
    from testproject.demo import scenes, words

    if code:
        words.say(f"starttask ended with code {code}; see {LOG}.")
        return 1
    words.show_end(scenes.waiting())
    return 0


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
