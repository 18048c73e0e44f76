"""Callbacks in the child of a fork."""

import os

import pytest

from django_tasks.host import forks


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_callback_that_raises_keeps_no_other_from_running_and_is_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
) -> None:
    ran: list[str] = []

    def fail() -> None:
        raise error("a lock is missing")

    callbacks = [fail, lambda: ran.append("second"), fail, lambda: ran.append("last")]
    monkeypatch.setattr(forks, "_callbacks", callbacks)
    forks._run()
    assert ran == ["second", "last"]
    said = [record.getMessage() for record in caplog.records]
    assert said == ["A child process could not be set right after its fork"] * 2
    assert "a lock is missing" in caplog.text


def test_so_it_is_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that forks goes on."""
    reader, writer = os.pipe()

    def fail() -> None:
        raise RuntimeError("a lock is missing")

    def tell() -> None:
        os.write(writer, b"told")

    monkeypatch.setattr(forks, "_callbacks", [fail, tell])
    if (child := os.fork()) == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    os.close(writer)
    assert os.read(reader, 10) == b"told"
    os.close(reader)
