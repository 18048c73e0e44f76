"""The engine's own numbers: the model has none of them twice."""

import django
from django.apps import apps
from django.conf import settings

if not apps.ready:  # the numbers stand beside statements, which need the models
    settings.configure(INSTALLED_APPS=["django_tasks"])
    django.setup()

from django_tasks.conf import Options
from django_tasks.store.claim import MOST_PLACES, MOST_SHARES
from django_tasks.wakeup.doorbell import FEWEST_WOKEN, PAUSE_SECONDS
from django_tasks.worker.executor import BUFFER_SECONDS
from django_tasks.worker.idling import ASIDE_SECONDS, CONTESTED_SECONDS, LONGEST_SLEEP
from django_tasks.worker.lanes import (
    LANES_SECONDS,
    LANES_SHARE,
    LONGEST_LANES_SECONDS,
)

__all__ = [
    "ASIDE_SECONDS",
    "BATCH",
    "BEAT_SECONDS",
    "BUFFER_SECONDS",
    "CONTESTED_SECONDS",
    "FEWEST_WOKEN",
    "LANES_SECONDS",
    "LANES_SHARE",
    "LONGEST_LANES_SECONDS",
    "LONGEST_SLEEP",
    "MOST_PLACES",
    "MOST_SHARES",
    "PAUSE_SECONDS",
    "POLL_SECONDS",
    "THREADS",
]

# A batch, and the threads, polling and heartbeats of a worker, as they are unless set.
_DEFAULTS = Options()
BATCH = _DEFAULTS.batch_size
THREADS = _DEFAULTS.threads
POLL_SECONDS = _DEFAULTS.poll_interval
BEAT_SECONDS = _DEFAULTS.lease / 3
