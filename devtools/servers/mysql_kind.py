"""The manners that MySQL and MariaDB share as private servers."""

import subprocess

from devtools.servers.server import DATABASE, PASSWORD, QUERY_SECONDS, USER, Server


class MySQLKind(Server):
    """A server that is made by a program of its own, then started and asked as all of its kind."""

    client: str
    places = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec"]
    users = ["mysql"]

    def url(self, port: int) -> str:
        return f"mysql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"

    def initialise(self) -> None:
        (self.directory / "init.sql").write_text(self.first_sql(), encoding="utf-8")
        self.run_logged([*self.maker(), *self.places_of_its_own(), *self.own_options()])

    def maker(self) -> list[str]:
        """The program that makes the data, and its options.

        Of these --no-defaults must come first; /etc/my.cnf is for other servers.
        """
        raise NotImplementedError

    def own_options(self) -> list[str]:
        """Options that only this kind of server knows."""
        return []

    def places_of_its_own(self) -> list[str]:
        # One that was fetched would look for its files in /usr.
        return [f"--basedir={self.bin().parent}", f"--datadir={self.directory / 'data'}"]

    def first_sql(self) -> str:
        lines = [f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;"]
        # It knows the same client as "localhost" or by its address, and as two users.
        for host in ("localhost", "127.0.0.1"):
            lines += [
                f"CREATE USER '{USER}'@'{host}' IDENTIFIED BY '{PASSWORD}';",
                f"GRANT ALL ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;",
            ]
        return "\n".join(lines) + "\n"

    def command(self) -> list[str]:
        directory = self.directory
        command = [
            self.program(self.programs[0]),
            "--no-defaults",
            *self.places_of_its_own(),
            *self.own_options(),
            f"--tmpdir={directory}",
            f"--socket={directory / 'socket'}",
            f"--pid-file={directory / 'pid'}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--max-connections=300",
            "--character-set-server=utf8mb4",
            # On purpose: nothing may depend on the time zone of the server.
            "--default-time-zone=+08:00",
        ]
        if not self.note().get("ready"):
            command.append(f"--init-file={directory / 'init.sql'}")
        return command

    def query(self, sql: str, database: str = DATABASE) -> subprocess.CompletedProcess[str]:
        return self.run(
            [
                self.program(self.client),
                "--no-defaults",
                "--protocol=tcp",
                "--host=127.0.0.1",
                f"--port={self.port}",
                f"--user={USER}",
                f"--database={database}",
                f"--execute={sql}",
            ],
            env={"MYSQL_PWD": PASSWORD},
            capture_output=True,
            timeout=QUERY_SECONDS,
        )
