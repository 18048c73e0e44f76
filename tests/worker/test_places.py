"""The place where a coroutine waits, as an error says it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Coroutine, Generator
from pathlib import Path
from types import SimpleNamespace
from types import coroutine as awaitable
from typing import Any

import pytest

from django_tasks.handlers.base import TaskHandler
from django_tasks.worker.places import place_at, place_in, place_of
from django_tasks.worker.timeouts import Timeouts

HERE = "tests/worker/test_places.py"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent.parent)


def line_of(words: str) -> int:
    """The line of this file that ends with ``words`` in a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {words}"))


def place_while_waiting(coroutine: Coroutine[Any, Any, Any]) -> str:
    """The place of a coroutine when it waits for the first time."""

    async def main() -> str:
        task = asyncio.ensure_future(coroutine)
        await asyncio.sleep(0)
        place = place_of(coroutine)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return place

    return asyncio.run(main())


async def sleeping() -> None:
    await asyncio.sleep(60)  # sleeping


async def calling() -> None:
    await sleeping()


async def gathering() -> None:
    await asyncio.gather(sleeping(), sleeping())  # gathering


@awaitable
def generator() -> Generator[Any, Any, None]:
    yield from asyncio.sleep(60).__await__()  # generator


async def waiting_for_a_generator() -> None:
    await generator()


@contextlib.asynccontextmanager
async def slow_context() -> AsyncIterator[None]:
    await asyncio.sleep(60)
    yield


async def entering() -> None:
    async with slow_context():  # entering
        pass


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (sleeping, "sleeping"),
        (calling, "sleeping"),
        (gathering, "gathering"),
        (waiting_for_a_generator, "generator"),
        (entering, "entering"),
    ],
)
def test_the_place_is_the_innermost_line_of_ones_own(function: Any, name: str) -> None:
    assert place_while_waiting(function()) == f"{HERE}:{line_of(name)} in {name}"


def test_a_coroutine_of_a_library_is_at_its_outermost_line() -> None:
    place = place_while_waiting(asyncio.sleep(60))
    assert "asyncio/tasks.py:" in place
    assert place.endswith(" in sleep")


def test_a_path_is_shown_from_the_directory_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("/usr")
    place = place_while_waiting(sleeping())
    assert place == f"{__file__}:{line_of('sleeping')} in sleeping"


def test_a_coroutine_that_has_ended_is_at_its_end() -> None:
    async def nothing() -> None:
        pass

    ended = nothing()
    asyncio.run(ended)
    assert place_of(ended) == "its end"


# Tracebacks


def test_of_a_traceback_it_is_the_innermost_line_of_the_project() -> None:
    def handle() -> None:
        Path("nowhere").read_text(encoding="utf-8")  # reading

    with pytest.raises(FileNotFoundError) as caught:
        handle()
    assert place_in(caught.value.__traceback__) == f"{HERE}:{line_of('reading')} in handle"


def test_of_a_traceback_within_the_worker_alone_it_is_the_end() -> None:
    assert place_in(None) == "its end"


def test_a_directory_that_has_gone_leaves_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ValueError, match="here") as raised:
        int("here")
    assert place_in(raised.tb).startswith(f"{__file__}:")


def test_of_a_thread_it_is_what_the_worker_has_called() -> None:
    def handle(task: Any) -> str:
        return place_at(sys._getframe())  # here

    timeouts = Timeouts()
    run = SimpleNamespace(handler=TaskHandler(), using="default")
    found = timeouts.during([run], 60.0, "handle()", lambda: handle(None))  # type: ignore[list-item]
    timeouts.close()
    assert found == f"{HERE}:{line_of('here')} in handle"


def test_of_a_thread_that_has_ended_it_is_its_end() -> None:
    assert place_at(None) == "its end"
