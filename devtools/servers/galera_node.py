"""A node of a Galera cluster."""

from __future__ import annotations

import glob
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devtools.messages import Problem, say
from devtools.servers.galera_transfer import unpack_transfer
from devtools.servers.mariadb import MariaDB
from devtools.servers.places import make_directory
from devtools.servers.ports import free_port
from devtools.servers.users import unprivileged_user
from devtools.servers.waiting import START_SECONDS, wait_until

if TYPE_CHECKING:
    from devtools.servers.galera import Galera


class GaleraNode(MariaDB):
    """A node of a Galera cluster, in which every node takes writes.

    Its note keeps the ports until the cluster is forgotten, because the other nodes know them.
    """

    packages = "mariadb-server-core mariadb-client-core galera-4 rsync lsof"
    programs = [*MariaDB.programs, "rsync"]
    LIBRARIES = ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera*/libgalera_smm.so"]

    def __init__(self, number: int, cluster: Galera) -> None:
        self.number = number
        self.cluster = cluster
        self.name = f"galera:{number}"
        self.title = f"Galera node {number}"

    # Programs

    def installed_in(self) -> Path | None:
        return super().installed_in() if self.library() else None

    def library(self) -> str | None:
        return next((path for pattern in self.LIBRARIES for path in glob.glob(pattern)), None)

    def environment(self) -> dict[str, str]:
        """MariaDB looks for the transfer's programs on PATH, and they for each other."""
        environment = super().environment()
        transfer = self.note().get("directory", "") + "/transfer"
        environment["PATH"] += f":{transfer}:/usr/sbin:/sbin"
        return environment

    # Its data and its command line

    def claim_ports(self) -> None:
        """Take them before any node starts: each is told where all the others are."""
        names = ("port", "group_port", "transfer_port", "increment_port")
        if not self.note():
            self.write_note(**{name: free_port() for name in names})

    def create(self) -> None:
        self.log_file.write_text("", encoding="utf-8")
        self.bin()
        user = unprivileged_user(self.users)
        self.write_note(directory=str(make_directory(self.file_name, user)), user=user)
        unpack_transfer(self.directory / "transfer", self.title)
        self.initialise()

    def initialise(self) -> None:
        """Only the first node makes data; the others get it from a node that has it."""
        if self.cluster.others_running(self):
            self.run_logged(["mkdir", str(self.directory / "data")])
        else:
            super().initialise()

    def remove(self) -> None:
        """Remove its data: without it a node is a new one, at the old place."""
        if "directory" in self.note():
            self.remove_directory()
            self.write_note(directory=None, ready=False, position=None)

    def note(self) -> dict[str, Any]:
        note = super().note()
        return {name: value for name, value in note.items() if value is not None}

    def settings(self) -> dict[str, Any]:
        note = self.note()
        local = "127.0.0.1"
        group = f"gmcast.listen_addr=tcp://{local}:{note['group_port']}"
        increment = f"ist.recv_addr=tcp://{local}:{note['increment_port']}"
        return {
            "wsrep-on": "ON",
            "wsrep-provider": self.library(),
            "wsrep-provider-options": f"{group};{increment}",
            "wsrep-cluster-name": "tasks",
            "wsrep-cluster-address": f"gcomm://{self.cluster.addresses()}",
            "wsrep-node-name": self.file_name,
            "wsrep-node-address": f"{local}:{note['group_port']}",
            "wsrep-node-incoming-address": f"{local}:{note['port']}",
            "wsrep-sst-method": "rsync",
            "wsrep-sst-receive-address": f"{local}:{note['transfer_port']}",
            "binlog-format": "ROW",
            "innodb-autoinc-lock-mode": 2,
        }

    def server_command(self) -> list[str]:
        return super().command() + [f"--{key}={value}" for key, value in self.settings().items()]

    def command(self) -> list[str]:
        command = self.server_command()
        position = self.note().get("position")
        if position is not None:
            command.append(f"--wsrep-start-position={position}")
        if not self.cluster.others_running(self):
            return [*command, "--wsrep-new-cluster"]
        # The others' node has made the users already.
        return [option for option in command if not option.startswith("--init-file=")]

    # Starting

    def start(self) -> None:
        self.claim_ports()
        if not (self.cluster.may_begin(self) or self.cluster.others_running(self)):
            raise Problem('No other node runs: "start galera" knows which of them has to begin.')
        if self.process() is None and self.note().get("ready"):
            self.recover()
        super().start()

    def recover(self) -> None:
        """Ask the data how far it has come, so that a killed node needs only what it missed."""
        log = self.directory / "recovery.log"
        log.unlink(missing_ok=True)
        self.run_logged([*self.server_command(), "--wsrep-recover", f"--log-error={log}"])
        text = log.read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"Recovered position:? *(\S+:-?\d+)", text)
        self.write_note(position=found[-1] if found else None)

    def sequence_number(self) -> int:
        return int(self.note().get("position", ":-1").rpartition(":")[2])

    def allow_to_begin(self) -> None:
        """Call it the last that went: after all have gone, Galera lets no other node begin."""
        state = self.directory / "data" / "grastate.dat"
        text = state.read_text(encoding="utf-8")
        state.write_text(
            text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"), encoding="utf-8"
        )

    def answers(self) -> bool:
        return self.state() == "Synced" and super().answers()

    # What it says of itself

    def variable(self, name: str) -> str:
        """One of its status variables; "" if it does not answer. A cut-off node answers too."""
        try:
            answer = self.query(f"SHOW STATUS LIKE '{name}'", database="")
        except subprocess.TimeoutExpired:
            return ""
        words = answer.stdout.split("\n")[1:2]  # below the headings
        return words[0].partition("\t")[2] if answer.returncode == 0 and words else ""

    def state(self) -> str:
        return self.variable("wsrep_local_state_comment")

    def is_in_cluster(self) -> bool:
        return self.variable("wsrep_cluster_status") == "Primary"

    def status(self) -> bool:
        if not super().status():
            return False
        size, state = self.variable("wsrep_cluster_size"), self.state()
        print(f"    {self.variable('wsrep_cluster_status')}, {state}, {size} nodes seen")
        return state == "Synced"

    # Cutting it off

    def isolate(self, cut: bool) -> None:
        if self.process() is None:
            raise Problem(f"{self.title} is not running.")
        options = f"gmcast.isolate={int(cut)}"
        answer = self.query(f"SET GLOBAL wsrep_provider_options='{options}'", database="")
        if answer.returncode != 0:
            raise Problem(f"{self.title}: {answer.stderr.strip()}")

    def cut(self) -> None:
        """Let it hear no other node any more, and wait until all of them have noticed."""
        others = self.cluster.others_running(self)
        self.isolate(True)
        if not wait_until(lambda: not self.is_in_cluster(), START_SECONDS):
            raise Problem(f"{self.title} still believes that it is not alone.")
        self.cluster.wait_for(others)
        say(f"{self.title} is cut off.")

    def heal(self) -> None:
        self.isolate(False)
        if not wait_until(lambda: self.state() == "Synced", START_SECONDS):
            raise Problem(f"{self.title} did not come back: {self.end_of_log()}")
        self.cluster.wait_for([self, *self.cluster.others_running(self)])
        say(f"{self.title} sees the others again.")
