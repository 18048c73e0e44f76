"""The keyword arguments that say what a task is. See ``django_tasks.api``."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from django_tasks.backoff import Backoff, Duration
from django_tasks.schedules import Schedule
from django_tasks.values.options import NAMES, OnMisfire


class GivenOptions(TypedDict, total=False):
    """The options of one task, as ``TaskOptions`` has them; None: as its handler says."""

    max_attempts: int | None
    timeout: Duration | None
    expires: datetime | timedelta | None
    backoff: Backoff | Duration | Sequence[Duration] | None
    misfire_grace_time: Duration | None
    on_misfire: OnMisfire | None
    coalesce: bool | None
    catch_up: int | None


class Facts(GivenOptions, total=False):
    """All that can be said of a task besides its key."""

    when: datetime | timedelta
    biz_ext: Any
    schedule: Schedule | str | timedelta | None
    queue: str | None
    priority: int | None
    name: str


OPTIONS = NAMES
FACTS = frozenset(Facts.__annotations__) | OPTIONS
