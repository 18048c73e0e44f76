"""Ports on 127.0.0.1 that nobody else takes."""

import random
import socket
from pathlib import Path

from devtools.messages import Problem


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: connections of a former server that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            # Binding alone succeeds beside another listener that is not listening yet.
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that the operating system says is free, below those it gives to outgoing connections.

    A server is stopped and started again on its port while clients try to connect all the time.
    From the range of outgoing ports, one of these connections could take the port meanwhile; it
    could even connect to itself.
    """
    for port in random.sample(_candidates(), 100):
        if port_is_free(port):
            return port
    raise Problem("There is no free port on 127.0.0.1.")


def _candidates() -> range:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        outgoing = int(text.split()[0])
    except OSError:
        outgoing = 32768
    return range(10240, outgoing) if outgoing > 12000 else range(10240, 65536)
