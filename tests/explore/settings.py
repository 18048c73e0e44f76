"""The settings of the simulated cluster: those of the fault suite, on the simulated database."""

from tests.faults.settings import *  # noqa: F403
from tests.faults.settings import DJANGO_TASKS

DATABASES = {
    "default": {"ENGINE": "tests.explore.backend", "NAME": "simulated", "OPTIONS": {"timeout": 5}},
}
USE_TZ = True
TIME_ZONE = "UTC"
LEASE = DJANGO_TASKS["LEASE"]
