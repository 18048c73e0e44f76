"""A thread's own connections."""

from contextlib import suppress
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks.store.dialects import dialect_of

# The connections that our threads use, by id. In the child of a fork those threads are gone, and
# MariaDB's client says goodbye to the server for every connection that is collected as garbage: to
# the parent's server, on the parent's connection. So they are held here.
_ours: dict[int, BaseDatabaseWrapper] = {}


def keep_connection(using: str, lock_wait: float) -> None:
    """Have this thread's connection usable: call before each cycle.

    A connection that met an error is closed and opened anew. One that works is kept even under
    ``CONN_MAX_AGE = 0``, which is meant for requests: the poller would connect once a second. No
    statement of it waits longer than ``lock_wait`` seconds for a row.
    """
    connection: Any = connections[using]
    _ours[id(connection)] = connection
    connection.close_if_unusable_or_obsolete()
    if connection.connection is None:
        connection.ensure_connection()
        if connection.settings_dict["CONN_MAX_AGE"] == 0:
            connection.close_at = None
        try:
            dialect_of(using).bound_lock_waits(lock_wait)
            dialect_of(using).catch_up()  # with what we wrote through another node
        except Error:
            connection.close()
            raise


def own_connections() -> list[BaseDatabaseWrapper]:
    """This thread's connections to all databases, open or not.

    One that cannot even be made (its driver is not installed here) is left out: nobody can use it.
    """
    own = []
    for alias in connections:
        with suppress(Exception):
            own.append(connections[alias])
    _ours.update((id(connection), connection) for connection in own)
    return own


def close_connections() -> None:
    """Close what this thread has opened: the last that a thread of ours does."""
    for connection in connections.all(initialized_only=True):
        _ours.pop(id(connection), None)
    connections.close_all()
