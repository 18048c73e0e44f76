"""A small manager that plays systemd's part for one service: its socket, its watchdog, its stop.

It does what ``systemd.service(5)`` and ``systemd.kill(5)`` say of the settings that our units have.
Users and sandboxes are not played: ``systemd-analyze verify`` reads those.
"""

import shlex
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from time import monotonic

from tests.deploy.shop import Shop, lines_of
from tests.deploy.units import Unit
from tests.leader import Leader, group
from tests.waiting import eventually

CREDENTIALS = struct.Struct("3i")  # process, user and group of who has sent a message
LARGEST = 4096
LOOK_SECONDS = 0.2
# The manager sets the variable to the process id of the main process, which exec keeps.
SHELL = ["/bin/sh", "-c", 'export WATCHDOG_PID=$$; exec "$@"', "sh"]


@dataclass(frozen=True)
class Message:
    """One line of a message, with its time and its sender."""

    at: float
    pid: int
    line: str


class NotifySocket:
    """The socket behind NOTIFY_SOCKET, read by a thread until it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._messages: list[Message] = []
        self._is_closed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.settimeout(LOOK_SECONDS)
        self._socket.bind(str(path))
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_closed:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    LARGEST, socket.CMSG_SPACE(CREDENTIALS.size)
                )
            except TimeoutError:
                continue
            pid, _, _ = CREDENTIALS.unpack(ancillary[0][2])
            at = monotonic()
            with self._lock:
                self._messages += [Message(at, pid, line) for line in data.decode().splitlines()]

    def messages(self, begin: str = "") -> list[Message]:
        with self._lock:
            return [each for each in self._messages if each.line.startswith(begin)]

    def close(self) -> None:
        self._is_closed = True
        self._thread.join()
        self._socket.close()
        self.path.unlink()


class Service:
    """The main process of a unit and its group, started and stopped as the unit says."""

    def __init__(self, unit: Unit, shop: Shop, *flags: str, watchdog: float | None = None) -> None:
        self.unit = unit
        self.shop = shop
        self.log = shop.place / "log" / "journal"
        self.watchdog = watchdog or unit.seconds("WatchdogSec")
        run = shop.place / "run"
        self.notify = NotifySocket(run / f"notify{len(list(run.iterdir()))}")
        for name in unit.all("Service", "RuntimeDirectory"):
            (run / name).mkdir(exist_ok=True)
        command = [*shlex.split(shop.at_home(unit.one("Service", "ExecStart"))), *flags]
        with open(self.log, "ab") as output:
            self.main = Leader(
                [*SHELL, *command],
                cwd=shop.at_home(unit.one("Service", "WorkingDirectory")),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _environment(self) -> dict[str, str]:
        values = self.shop.environment()
        for line in self.unit.all("Service", "Environment"):
            values |= _pairs(line)
        for path in self.unit.all("Service", "EnvironmentFile"):
            values |= _pairs(Path(self.shop.at_home(path)).read_text(encoding="utf-8"))
        values["NOTIFY_SOCKET"] = str(self.notify.path)
        values["WATCHDOG_USEC"] = str(int(self.watchdog * 1e6))
        return values

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def accepted(self, begin: str) -> list[Message]:
        """The messages that ``NotifyAccess=main`` lets through."""
        assert self.unit.one("Service", "NotifyAccess") == "main"
        return [each for each in self.notify.messages(begin) if each.pid == self.main.pid]

    def becomes_ready(self) -> None:
        eventually(lambda: self.accepted("READY=1"), "READY=1 has come", log=self.text)

    def is_late(self) -> bool:
        """Tell if the watchdog has waited for longer than its time, counted from READY=1."""
        signs = self.accepted("WATCHDOG=1") or self.accepted("READY=1")
        return monotonic() - signs[-1].at > self.watchdog

    def stop(self) -> int | None:
        """``systemctl stop``: returns the exit code, or None if it had to be killed."""
        assert self.unit.one("Service", "KillMode") == "mixed"
        self.main.send(signal.Signals[self.unit.one("Service", "KillSignal")])
        code = self.main.wait(self.unit.seconds("TimeoutStopSec"))
        self.kill()
        return code

    def abort(self) -> None:
        """The end of a service whose watchdog waits in vain; SIGABRT first, which ends a process
        that is not stopped."""
        self.main.send(signal.SIGABRT)
        self.kill()

    def kill(self) -> None:
        """SIGKILL for the whole group: at the end of each stop with ``KillMode=mixed``."""
        self.main.send_all(signal.SIGKILL)
        eventually(lambda: not group(self.main.pid), "the group is gone", log=self.text)

    def restarts_after(self, code: int) -> bool:
        """Tell if the manager starts it again after that end."""
        assert self.unit.one("Service", "Restart") == "on-failure"
        prevented = self.unit.one("Service", "RestartPreventExitStatus").split()
        return code != 0 and str(code) not in prevented

    def close(self) -> None:
        self.main.end()
        self.notify.close()


def keep_environment(shop: Shop, example: str) -> None:
    """Write ``/etc/shop/environment`` with the names of the example and the values of this test."""
    values = {name: shop.secrets[name] for name in _pairs(example)}
    (shop.place / "etc" / "environment").write_text(lines_of(values), encoding="utf-8")


def _pairs(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line and line[0] != "#")
    return {name: value for name, _, value in lines}
