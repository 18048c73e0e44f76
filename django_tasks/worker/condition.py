"""The condition of a worker, in one word, for those that watch over it."""

from enum import IntEnum


class Condition(IntEnum):
    """A worker's condition. The values cross between processes as numbers.

    QUIET: a person has asked it to claim nothing, and it would. WITHOUT_DATABASE: the database does
    not answer or refuses, or the lease has passed without a heartbeat. HANGING: its poller is in
    one cycle for longer than its lease, although its heartbeats reach the database.
    """

    ENDED = 0
    STARTING = 1
    WORKING = 2
    QUIET = 3
    WITHOUT_DATABASE = 4
    STOPPING = 5
    HANGING = 6

    @property
    def code(self) -> str:
        """The word for it that programs read."""
        return self.name.lower()
