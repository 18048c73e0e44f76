"""Waits that another thread ends."""

import os
from collections.abc import Iterator
from threading import Thread
from time import monotonic

import pytest

from django_tasks.host.self_pipe import SelfPipe, readable
from tests.waiting import DEADLINE


@pytest.fixture
def flag() -> Iterator[SelfPipe]:
    flag = SelfPipe()
    yield flag
    flag.close()


@pytest.fixture
def other() -> Iterator[tuple[int, int]]:
    """Another pipe to wait for: where to read and where to write."""
    read_end, write_end = os.pipe()
    yield read_end, write_end
    os.close(read_end)
    os.close(write_end)


def test_a_wait_ends_when_another_thread_sets_the_flag(flag: SelfPipe) -> None:
    setting = Thread(target=flag.set)
    setting.start()
    assert flag.wait(seconds=DEADLINE)
    setting.join()


def test_a_flag_stays_set_however_often_it_was_set(flag: SelfPipe) -> None:
    for _ in range(100_000):  # more than a pipe holds
        flag.set()
    assert flag.wait()
    assert flag.wait(seconds=0)


def test_a_wait_ends_when_something_else_can_be_read(
    flag: SelfPipe, other: tuple[int, int]
) -> None:
    read_end, write_end = other
    os.write(write_end, b"x")
    assert not flag.wait(read_end)
    flag.set()
    assert flag.wait(read_end)


def test_a_wait_ends_after_its_time(flag: SelfPipe, other: tuple[int, int]) -> None:
    begin = monotonic()
    assert not flag.wait(other[0], seconds=0.05)
    assert 0.04 < monotonic() - begin < DEADLINE
    assert not flag.wait(seconds=0)
    assert not flag.wait(seconds=-1)


def test_what_was_closed_is_a_reason_to_look(other: tuple[int, int]) -> None:
    broken, write_end = os.pipe()
    os.close(write_end)
    assert readable([other[0], broken]) == {broken}
    os.close(broken)
    assert readable([other[0], broken]) == {broken}


def test_a_flag_that_was_closed_writes_into_nobody_elses_file() -> None:
    flag = SelfPipe()
    numbers = flag._read_end, flag._write_end
    flag.close()
    files = os.pipe()
    assert files == numbers, "the numbers are free again"
    flag.set()
    flag.close()
    try:
        assert readable([files[0]], 0) == set()
    finally:
        os.close(files[0])
        os.close(files[1])
