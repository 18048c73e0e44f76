"""A single server of Oracle's MySQL."""

import subprocess
from functools import cache
from pathlib import Path

from devtools.servers.fetched import Fetched
from devtools.servers.mysql_kind import MySQLKind
from devtools.servers.programs import find_directory

# Ubuntu's: by it the machine's own server may write to the data of the machine's service alone.
CONFINEMENT = Path("/etc/apparmor.d/usr.sbin.mysqld")


class MySQL(Fetched, MySQLKind):
    """The machine's own server if it is Oracle's; else one that is fetched."""

    name = "mysql"
    title = "MySQL"
    programs = ["mysqld", "mysql"]
    client = "mysql"

    def installed_in(self) -> Path | None:
        own = find_directory(self.programs, self.places)
        if own is not None and is_oracles(own / "mysqld") and not CONFINEMENT.exists():
            return own
        return super().installed_in()

    def maker(self) -> list[str]:
        return [self.program("mysqld"), "--no-defaults", "--initialize-insecure"]

    def own_options(self) -> list[str]:
        # Its other protocol listens on a port that has one number for all servers of a machine;
        # and the folder for files of SQL statements is that of the machine's service.
        return ["--mysqlx=OFF", "--secure-file-priv=NULL"]


@cache
def is_oracles(server: Path) -> bool:
    """Tell MySQL's server from MariaDB's, which goes by the same name beside its own."""
    done = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and "MariaDB" not in done.stdout
