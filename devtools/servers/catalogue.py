"""All servers there are, by the names that the command knows."""

from devtools.servers.cluster import Cluster
from devtools.servers.fetched import Fetched
from devtools.servers.galera import Galera
from devtools.servers.mariadb import MariaDB
from devtools.servers.mysql import MySQL
from devtools.servers.newest import NewestMariaDB, NewestPostgreSQL
from devtools.servers.postgresql import PostgreSQL
from devtools.servers.rabbitmq import RabbitMQ
from devtools.servers.replica import Replica
from devtools.servers.server import Server

_mysql = MySQL()
SINGLE: dict[str, Server] = {server.name: server for server in (MariaDB(), _mysql, PostgreSQL())}
FETCHED: dict[str, Fetched] = {
    server.name: server for server in (_mysql, NewestMariaDB(), NewestPostgreSQL())
}
BROKERS: dict[str, Server] = {server.name: server for server in (RabbitMQ(),)}
CLUSTERS: dict[str, Cluster] = {cluster.name: cluster for cluster in (Galera(), Replica())}
MEMBERS = {member.name: member for cluster in CLUSTERS.values() for member in cluster.members}
SERVERS: dict[str, Server | Cluster] = {**SINGLE, **FETCHED, **BROKERS, **CLUSTERS, **MEMBERS}
