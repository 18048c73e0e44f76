"""The settings of the simulated cluster: those of the fault suite, on the simulated database."""

from tests.faults.settings import *  # noqa: F403
from tests.faults.settings import DJANGO_TASKS, TASK_HANDLERS

DATABASES = {
    "default": {"ENGINE": "tests.explore.backend", "NAME": "simulated", "OPTIONS": {"timeout": 5}},
}
USE_TZ = True
TIME_ZONE = "UTC"
TASK_HANDLERS = [
    *TASK_HANDLERS,
    "tests.explore.handlers.Limited",
    "tests.explore.handlers.Rated",
    "tests.explore.handlers.Timely",
    "tests.explore.handlers.Deadly",
    "tests.explore.handlers.Timed",
    "tests.explore.handlers.Hanging",
    "tests.explore.handlers.Halved",
    "tests.explore.handlers.Crowd",
]
LEASE = DJANGO_TASKS["LEASE"]
