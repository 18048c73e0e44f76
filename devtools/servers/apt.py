"""Packages of Debian or Ubuntu in a folder, by an apt-get of its own: nothing is installed."""

import platform
import subprocess
from pathlib import Path

from devtools.messages import Problem
from devtools.servers.versions import Wanted, wanted

HELPER = "/usr/lib/apt/apt-helper"
KEYRING = Path("usr/share/keyrings/debian-archive-keyring.gpg")

# Debian's other suites have neither a server of Oracle nor the newest of MariaDB.
SUITE = "sid"

# Names that sources may have in place of a codename.
ALIASES = ("stable", "testing", "unstable", "sid")


class Apt:
    """An apt-get that keeps all it knows in a folder, and to which nothing is installed.

    It asks the machine's mirrors: on Debian for the suite sid, elsewhere for the machine's own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = {
            "Dir::State": f"{folder}/state",
            "Dir::State::status": f"{folder}/status",
            "Dir::Cache": f"{folder}/cache",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Acquire::Languages": "none",
            "APT::Install-Recommends": "false",
        }
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        if _system().get("ID") == "debian":
            self._ask_for(SUITE)

    def _ask_for(self, suite: str) -> None:
        mirrors = debian_mirrors(_system().get("VERSION_CODENAME", suite))
        if not mirrors:
            raise Problem("None of the sources of this machine's apt-get is a mirror of Debian.")
        keys = next(filter(None, map(self._keys, mirrors)), f"/{KEYRING}")
        sources = self.folder / "sources.list"
        lines = [f"deb [signed-by={keys}] {mirror} {suite} main\n" for mirror in mirrors]
        sources.write_text("".join(lines), encoding="utf-8")
        self.options["Dir::Etc::sourcelist"] = str(sources)
        self.options["Dir::Etc::sourceparts"] = "/dev/null"

    def _keys(self, mirror: str) -> str:
        """Debian's newest keys, of the package that is pinned.

        A mirror may have it no more; the machine's own keys, then, are a newer package's.
        """
        package = wanted("debian-archive-keyring")
        (name,), (digest,) = package.packages, package.sha256
        file = self.folder / f"{name}_{package.tested}_all.deb"
        address = f"{mirror}/pool/main/d/{name}/{file.name}"
        done = _run(HELPER, "download-file", address, str(file), f"SHA256:{digest}")
        if done.returncode != 0 or not file.exists():  # one on this disk is read, and not copied
            return ""
        _unpack(file, self.folder)
        return str(self.folder / KEYRING)

    def find(self, packages: Wanted) -> tuple[str, list[str]]:
        """The version to take, and the packages by the names that they have here."""
        update = self._ask("apt-get", "update")
        for suffix in ("", *(f"-{series}" for series in packages.series)):  # Ubuntu's have one
            names = [name + suffix for name in packages.packages]
            if version := packages.choose(self._versions(names[0])):
                return version, names
        reason = _reason(update.stderr) or f"there is no version {packages.series[0]} of it"
        raise Problem(f"{packages.packages[0]} is not to be had: {reason}")

    def _versions(self, name: str) -> list[str]:
        lines = self._ask("apt-cache", "madison", name).stdout.splitlines()
        return [line.split("|")[1].strip() for line in lines]

    def unpack(self, names: list[str], version: str, root: Path) -> None:
        """Download the packages and all that they depend on, and unpack them."""
        exact = [f"{name}={version}" for name in names]
        done = self._ask("apt-get", "--yes", "--download-only", "install", *exact)
        if done.returncode != 0:
            raise Problem(f"{' '.join(exact)}: {_reason(done.stderr)}")
        for package in sorted((self.folder / "cache" / "archives").glob("*.deb")):
            _unpack(package, root)

    def _ask(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        options = [f"--option={name}={value}" for name, value in self.options.items()]
        return _run(program, "-qq", *options, *words)


def debian_mirrors(codename: str, etc: str = "/etc/apt") -> list[str]:
    """The addresses that may be mirrors of Debian, by the sources of the machine's apt-get.

    One that is none has neither the suite that is asked for nor Debian's keys.
    """
    done = _run(
        "apt-get",
        f"--option=Dir::Etc={etc}",
        "indextargets",
        "--no-release-info",
        "--format=$(REPO_URI) $(RELEASE) $(COMPONENT)",  # the last one may be empty
        "Created-By: Packages",
    )
    known = [[suite, "main"] for suite in (codename, *ALIASES)]
    found = [line.split() for line in done.stdout.splitlines()]
    return list(dict.fromkeys(uri.rstrip("/") for uri, *rest in found if rest in known))


def _system() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _unpack(package: Path, root: Path) -> None:
    done = _run("dpkg-deb", "--extract", str(package), str(root))
    if done.returncode != 0:
        raise Problem(f"{package.name} cannot be unpacked: {_reason(done.stderr)}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Problem(f"There is no {command[0]}: this machine is no Debian.") from error


def _reason(errors: str) -> str:
    """The first error, or the first warning if there is none."""
    lines = errors.strip().splitlines()
    return next((line for line in lines if line.startswith("E: ")), lines[0] if lines else "")
