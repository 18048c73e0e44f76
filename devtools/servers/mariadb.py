"""A single MariaDB server."""

from devtools.servers.mysql_kind import MySQLKind


class MariaDB(MySQLKind):
    name = "mariadb"
    title = "MariaDB"
    packages = "mariadb-server-core mariadb-client-core"
    programs = ["mariadbd", "mariadb-install-db", "mariadb"]
    client = "mariadb"

    def maker(self) -> list[str]:
        return [
            self.program("mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
        ]
