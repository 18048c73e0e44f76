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
    """All that can be said of a task besides its key.

    ``when``        a datetime, naive in the current time zone, or a timedelta from now by the
                    database's clock
    ``biz_ext``     the payload: JSON, as PAYLOAD_ENCODER writes it
    ``schedule``    a value of ``django_tasks.schedules`` or its text: the task runs again and
                    again, first at ``when``, or without one at the schedule's first time
    ``queue``, ``priority``  None: as the handler says
    ``name``        for people, up to 200 characters
    """

    when: datetime | timedelta
    biz_ext: Any
    schedule: Schedule | str | timedelta | None
    queue: str | None
    priority: int | None
    name: str


OPTIONS = NAMES
FACTS = frozenset(Facts.__annotations__) | OPTIONS
