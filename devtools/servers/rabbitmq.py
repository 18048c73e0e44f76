"""A single RabbitMQ broker."""

import os
import socket

from devtools.servers.ports import free_port
from devtools.servers.server import PASSWORD, USER, Server

# A client begins with this, and a broker that is ready answers with a frame of a method.
GREETING, METHOD_FRAME = b"AMQP\x00\x00\x09\x01", b"\x01"
GREETING_SECONDS = 5.0


class RabbitMQ(Server):
    """A broker, started by name only: no database.

    It is an Erlang node, but has no epmd, the daemon that nodes of one machine find each other by
    and that outlives all of them: its port for other nodes stands in its own environment.
    """

    name = "rabbitmq"
    title = "RabbitMQ"
    packages = "rabbitmq-server"
    programs = ["rabbitmq-server", "erl"]
    # The one on Debian's PATH is a wrapper that runs as the service's own user only.
    places = ["/usr/lib/rabbitmq/bin"]
    users = ["rabbitmq"]

    def url(self, port: int) -> str:
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{port}//"

    def initialise(self) -> None:
        self.write_note(node_port=free_port())
        settings = {
            "default_user": USER,
            "default_pass": PASSWORD,
            "log.console": "true",
            "log.file": "false",
            # Alarms are for a machine of its own: here they would stop every publisher.
            "disk_free_limit.absolute": "10MB",
        }
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (self.directory / "rabbitmq.conf").write_text("".join(lines), encoding="utf-8")

    def command(self) -> list[str]:
        return [str(self.bin() / "rabbitmq-server")]

    def environment(self) -> dict[str, str]:
        directory, node_port = str(self.directory), self.note()["node_port"]
        return super().environment() | {
            "HOME": directory,  # it keeps its cookie there
            "RABBITMQ_CONF_ENV_FILE": os.devnull,  # /etc/rabbitmq is for other brokers
            "RABBITMQ_CONFIG_FILE": f"{directory}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/plugins",
            "RABBITMQ_LOG_BASE": directory,
            "RABBITMQ_MNESIA_BASE": f"{directory}/data",
            "RABBITMQ_NODENAME": "tasks@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(node_port),
            # Not on the command line: once a minute it looks for epmd, and would start it, by
            # another node of its own.
            "ERL_FLAGS": f"-start_epmd false -erl_epmd_port {node_port}",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-sname tasks@localhost -kernel inet_dist_use_interface {127,0,0,1}"
            ),
            # Its script becomes the broker, with the pid that was noted, and does not stay beside.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), GREETING_SECONDS) as client:
                client.sendall(GREETING)
                return client.recv(1) == METHOD_FRAME
        except OSError:
            return False
