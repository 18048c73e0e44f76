"""The programs of the full transfer of a node's data from another node.

In Debian they are in mariadb-server, with a service that nobody wants here.
"""

import shutil
import subprocess
from pathlib import Path

from devtools.messages import Problem
from devtools.servers.places import RUNTIME

TRANSFER = ["wsrep_sst_rsync", "wsrep_sst_common"]


def unpack_transfer(directory: Path, title: str) -> None:
    """Take the programs out of Debian's package without installing it, for the node ``title``."""
    directory.mkdir()
    if all(shutil.which(program) for program in TRANSFER):
        return
    package = _package(title)
    paths = [f"./usr/bin/{program}" for program in TRANSFER]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
        command = ["tar", "-x", "--strip-components=3", "-C", str(directory), *paths]
        if subprocess.run(command, stdin=tar.stdout).returncode != 0:
            raise Problem(f"There is no {' and '.join(TRANSFER)} in {package.name}.")
    directory.chmod(0o755)


def _package(title: str) -> Path:
    """Debian's mariadb-server as a file, fetched once."""
    kept = RUNTIME / "packages"
    kept.mkdir(exist_ok=True)
    if not list(kept.glob("mariadb-server_*.deb")):
        command = ["apt-get", "-qq", "download", "mariadb-server"]
        done = subprocess.run(command, cwd=kept, capture_output=True, text=True)
        if done.returncode != 0:
            raise Problem(f"{title} needs {TRANSFER[0]}: {done.stderr.strip()}")
    return next(kept.glob("mariadb-server_*.deb"))
