"""A single PostgreSQL server."""

import signal
import subprocess

from devtools.messages import Problem
from devtools.servers.programs import utf8_locale
from devtools.servers.server import DATABASE, PASSWORD, QUERY_SECONDS, USER, Server


class PostgreSQL(Server):
    name = "postgresql"
    title = "PostgreSQL"
    packages = "postgresql"
    programs = ["postgres", "initdb", "psql"]
    # Debian keeps the servers of all versions there, and off PATH.
    places = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"]
    users = ["postgres"]
    stop_signal = signal.SIGINT  # the "fast" stop: does not wait for the clients to leave

    def url(self, port: int) -> str:
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"

    def initialise(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(PASSWORD + "\n", encoding="utf-8")
        self.run_logged(
            [
                self.program("initdb"),
                f"--pgdata={self.directory / 'data'}",
                f"--username={USER}",  # the superuser: the tests terminate backends
                # Readable for the server's user, who owns the directory above.
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                f"--locale={utf8_locale()}",
            ]
        )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",  # none: nobody needs one
            "max_connections": 300,
            # On purpose: nothing may depend on the time zone of the server.
            "timezone": "Asia/Shanghai",
        }
        command = [self.program("postgres"), "-D", str(self.directory / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def query(self, sql: str, database: str = DATABASE) -> subprocess.CompletedProcess[str]:
        return self.run(
            [
                self.program("psql"),
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--host=127.0.0.1",
                f"--port={self.port}",
                f"--username={USER}",
                f"--dbname={database}",
                f"--command={sql}",
            ],
            env={"PGPASSWORD": PASSWORD},
            capture_output=True,
            timeout=QUERY_SECONDS,
        )

    def value(self, sql: str) -> str:
        """The answer to a query for one value; "" if there is none."""
        return self.query(sql).stdout.strip()

    def first_database(self) -> str:
        return DATABASE if self.note().get("ready") else "postgres"

    def prepare(self) -> None:
        answer = self.query(f"CREATE DATABASE {DATABASE}", "postgres")
        if answer.returncode != 0:
            raise Problem(f"PostgreSQL could not make the database: {answer.stderr.strip()}")
