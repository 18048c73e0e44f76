"""The settings of workers that hand over, and of the client."""

from tests.faults.settings import *  # noqa: F403

TASK_HANDLERS = ["tests.faults.handing.handlers.Handed"]
