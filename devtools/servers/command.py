"""The command scripts/servers, as tests and benchmarks run it."""

import subprocess
import sys

from devtools import CHECKOUT


def servers(*arguments: str, timeout: float | None = None) -> dict[str, str]:
    """Run scripts/servers; the KEY=URL lines that it printed."""
    done = _run(*arguments, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"scripts/servers {' '.join(arguments)}: {done.stderr}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def is_running(name: str) -> bool:
    return _run("status", name).returncode == 0


def why_missing(name: str) -> str:
    """The packages that a server needs and has not; nothing if all are there."""
    done = _run("missing", name)
    done.check_returncode()
    return f"not installed: {done.stdout.strip()}" if done.stdout.strip() else ""


def _run(*arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/servers", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
