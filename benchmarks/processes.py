"""The processes of a contender's workers: started, looked at, ended."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

END_SECONDS = 30
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Workers:
    """All processes of one contender; each command leads a session of its own."""

    def __init__(self, leaders: Sequence[subprocess.Popen[bytes]], log: Path) -> None:
        self._leaders = leaders
        self._log = log

    def look(self) -> None:
        """Raise if one of them has ended by itself."""
        for leader in self._leaders:
            if leader.poll() is not None:
                raise RuntimeError(f"a worker ended with {leader.returncode}: {self.end_of_log()}")

    def have_ended(self) -> bool:
        return all(leader.poll() is not None for leader in self._leaders)

    def end_of_log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def stop(self) -> None:
        """Ask politely; kill what does not hear it."""
        for leader in self._leaders:
            if leader.poll() is None:
                leader.terminate()
        deadline = monotonic() + END_SECONDS
        for leader in self._leaders:
            with suppress(subprocess.TimeoutExpired):
                leader.wait(max(0.0, deadline - monotonic()))
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for leader in self._leaders:
            leader.wait()

    def cpu_seconds(self) -> float:
        """Of all living processes, since their start."""
        return sum(_cpu_seconds(pid) for pid in self._family())

    def memory(self) -> int:
        """Resident bytes of the largest process."""
        return max((_resident(pid) for pid in self._family()), default=0)

    def _family(self) -> list[int]:
        leaders = {leader.pid for leader in self._leaders}
        return [
            int(name)
            for name in os.listdir("/proc")
            if name.isdigit() and _session(name) in leaders
        ]


@contextmanager
def running(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], log: Path
) -> Iterator[Workers]:
    with log.open("ab") as output:
        leaders = [
            subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            for command in commands
        ]
    workers = Workers(leaders, log)
    try:
        yield workers
    finally:
        workers.stop()


def wait_until(condition: object, seconds: float, every: float = 0.005) -> None:
    """Until ``condition()`` is true."""
    assert callable(condition)
    deadline = monotonic() + seconds
    while not condition():
        if monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s in vain")
        sleep(every)


def _stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat behind the program's name; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _session(pid: str) -> int:
    fields = _stat(pid)
    return int(fields[3]) if fields and fields[0] not in "ZX" else 0


def _cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _resident(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[21]) * _PAGE if fields else 0
