"""Packages of Debian and Ubuntu: what is missing for a profile, and its installation."""

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from devtools import CHECKOUT, translations
from devtools.browser import chromium
from devtools.interruption import undisturbed
from devtools.messages import say
from devtools.servers.catalogue import SERVERS
from devtools.setup.profiles import Profile
from devtools.setup.python import Python
from devtools.setup.venv import has_mysqlclient, has_uwsgi, is_usable

Missing = dict[str, list[str]]  # packages by their purpose

# mysqlclient asks pkg-config for these, in its own order.
MYSQL_LIBRARIES = ["mysqlclient", "mariadb", "libmariadb", "perconaserverclient"]

# A user's PATH may lack the last one, where Debian has PgBouncer.
PROGRAMS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"

# Noto's, and those of WenQuanYi.
CHINESE_FONTS = ("NotoSansCJK*", "NotoSerifCJK*", "wqy-*")

FALSE_CLOCKS = "/usr/lib/*/faketime/libfaketimeMT.so.1"

# Debian's redis-tools, which brings no service, has the server under this name.
REDIS = Path("/usr/bin/redis-check-rdb")


def missing(profile: Profile, python: Python) -> Missing:
    """The packages that the profile needs and the machine lacks."""
    found: Missing = {"venv": _for_venv(python)}
    found |= {name: _PROGRAMS[name](python) for name in profile.programs}
    if profile.needs_mysqlclient:
        found["mysqlclient"] = _for_mysqlclient(python)
    found |= {name: SERVERS[name].missing_packages() for name in profile.servers}
    return {purpose: packages for purpose, packages in found.items() if packages}


def _for_venv(python: Python) -> list[str]:
    if python.has_ensurepip or is_usable(python):
        return []
    return [python.debian_package("venv") or f"ensurepip for {python.path}"]


def _for_compiling(python: Python) -> list[str]:
    found = []
    if not python.headers:
        found.append(python.debian_package("dev") or f"Python.h for {python.path}")
    if not _can_compile():
        found += ["gcc", "libc6-dev"]
    return found


def _can_compile() -> bool:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "try.c"
        source.write_text("#include <stdio.h>\nint main(void) { return 0; }\n", encoding="utf-8")
        return any(
            _succeeds(compiler, str(source), "-o", str(Path(directory) / "try"))
            for compiler in ("cc", "gcc", "clang")
        )


def _for_mysqlclient(python: Python) -> list[str]:
    """It has no binary distribution for Linux, and is compiled here."""
    if has_mysqlclient(python):
        return []
    found = _for_compiling(python)
    if not _succeeds("pkg-config", "--version"):
        found += ["pkg-config", "default-libmysqlclient-dev"]
    elif not any(_succeeds("pkg-config", "--exists", name) for name in MYSQL_LIBRARIES):
        found.append("default-libmysqlclient-dev")
    return found


def _for_pgbouncer(python: Python) -> list[str]:
    return [] if shutil.which("pgbouncer", path=PROGRAMS) else ["pgbouncer"]


def _for_uwsgi(python: Python) -> list[str]:
    """It is compiled here, too."""
    return [] if has_uwsgi(python) else _for_compiling(python)


def _for_false_clocks(python: Python) -> list[str]:
    return [] if glob.glob(FALSE_CLOCKS) else ["faketime"]


def _for_broker(python: Python) -> list[str]:
    return [] if shutil.which("redis-server") or REDIS.exists() else ["redis-tools"]


def _for_chromium(python: Python) -> list[str]:
    return [] if chromium() else ["chromium"]


def _for_units(python: Python) -> list[str]:
    return [] if shutil.which("systemd-analyze") else ["systemd"]


def _for_chinese(python: Python) -> list[str]:
    """Without a font that has them, a browser draws boxes in place of Chinese characters."""
    fonts = Path("/usr/share/fonts")
    found = any(next(fonts.rglob(name), None) for name in CHINESE_FONTS)
    return [] if found else ["fonts-noto-cjk"]


def _for_translations(python: Python) -> list[str]:
    return [translations.GETTEXT] if translations.why_not() else []


_PROGRAMS: dict[str, Callable[[Python], list[str]]] = {
    "PgBouncer": _for_pgbouncer,
    "uWSGI": _for_uwsgi,
    "false clocks": _for_false_clocks,
    "Celery's broker": _for_broker,
    "Chromium": _for_chromium,
    "systemd-analyze": _for_units,
    "Chinese fonts": _for_chinese,
    "gettext": _for_translations,
}


def install(found: Missing) -> None:
    """Install them as root, or with a sudo that asks for no password; elsewhere do nothing.

    Another look at the machine shows a failure.
    """
    packages, _ = split(found)
    prefix = _as_root()
    if not packages or prefix is None or shutil.which("apt-get") is None:
        return
    say(f"Installing with apt-get (Ctrl-C waits for its end): {' '.join(packages)}")
    command = [*prefix, str(CHECKOUT / "scripts" / "apt-install"), *packages]
    with undisturbed():  # apt-get should not be stopped half-way
        subprocess.run(command, start_new_session=True, check=False)  # out of reach of Ctrl-C


def name_all(found: Missing) -> None:
    """Say what is missing, and the command of root that installs it."""
    packages, others = split(found)
    if packages:
        say(f"Packages are missing; on Debian root can: apt-get install {' '.join(packages)}")
    for other in others:
        say(f"Missing: {other}.")


def split(found: Missing) -> tuple[list[str], list[str]]:
    """Everything that is missing, once each: packages, and what no package can bring."""
    everything = list(dict.fromkeys(item for items in found.values() for item in items))
    return (
        [item for item in everything if " " not in item],
        [item for item in everything if " " in item],
    )


def _as_root() -> list[str] | None:
    """Words to put before a command that needs root; None if there is no way."""
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if _succeeds("sudo", "-n", "true") else None


def _succeeds(*command: str) -> bool:
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,  # as the installation: sudo's answer may depend on it
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0
