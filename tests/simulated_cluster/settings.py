"""The settings of the simulated cluster: those of the fault suite, on the simulated database."""

from tests.faults.settings import *  # noqa: F403
from tests.faults.settings import DJANGO_TASKS, TASK_HANDLERS

DATABASES = {
    "default": {
        "ENGINE": "tests.simulated_cluster.backend",
        "NAME": "simulated",
        "OPTIONS": {"timeout": 5},
    },
}
USE_TZ = True
TIME_ZONE = "UTC"
TASK_HANDLERS = [
    *TASK_HANDLERS,
    "tests.simulated_cluster.handlers.Limited",
    "tests.simulated_cluster.handlers.Rated",
    "tests.simulated_cluster.handlers.Timely",
    "tests.simulated_cluster.handlers.Deadly",
    "tests.simulated_cluster.handlers.Timed",
    "tests.simulated_cluster.handlers.Hanging",
    "tests.simulated_cluster.handlers.Halved",
    "tests.simulated_cluster.handlers.Crowd",
]
LEASE = DJANGO_TASKS["LEASE"]
