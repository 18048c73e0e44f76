"""A Galera cluster of three nodes."""

from collections.abc import Sequence

from devtools.messages import Problem
from devtools.servers.cluster import Cluster
from devtools.servers.galera_node import GaleraNode
from devtools.servers.waiting import START_SECONDS, wait_until


class Galera(Cluster):
    name = "galera"
    title = "Galera"

    def __init__(self) -> None:
        self.nodes = [GaleraNode(number, self) for number in (1, 2, 3)]
        self.members = self.nodes
        self.beginner: GaleraNode | None = None

    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{node.note()['group_port']}" for node in self.nodes)

    def others_running(self, node: GaleraNode) -> list[GaleraNode]:
        return [other for other in self.nodes if other is not node and other.process() is not None]

    def start(self, sync: bool = False) -> None:
        for node in self.nodes:
            node.claim_ports()
        order = self.order()
        self.beginner = order[0]
        for node in order:
            node.start()
        self.wait_for(self.nodes)

    def may_begin(self, node: GaleraNode) -> bool:
        """A second cluster beside the data of a stopped one would be two truths."""
        others = [other for other in self.nodes if other is not node]
        return node is self.beginner or not any(other.note().get("ready") for other in others)

    def order(self) -> list[GaleraNode]:
        """Order the nodes: if none runs, the one with the most of the data begins."""
        ready = [node for node in self.nodes if node.note().get("ready")]
        if not ready or any(node.process() for node in self.nodes):
            return self.nodes
        for node in ready:
            node.recover()
        first = max(ready, key=GaleraNode.sequence_number)
        first.allow_to_begin()
        return [first, *(node for node in self.nodes if node is not first)]

    def wait_for(self, nodes: Sequence[GaleraNode]) -> None:
        """Wait until these nodes, and no others, are one cluster."""

        def are_one() -> bool:
            return all(
                node.variable("wsrep_cluster_size") == str(len(nodes)) and node.state() == "Synced"
                for node in nodes
            )

        if not wait_until(are_one, START_SECONDS):
            raise Problem(f"The nodes did not become a cluster of {len(nodes)}.")

    def print_url(self) -> None:
        urls = [node.url(node.port) for node in self.nodes if node.process() is not None]
        if urls:
            print(f"GALERA_URLS={','.join(urls)}")
            print(f"GALERA_URL={urls[0]}", flush=True)
