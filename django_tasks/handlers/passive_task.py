"""A time of a sticky handler's schedule, as the workers see it that are not the active one."""

from datetime import datetime
from typing import Any, NamedTuple

from django_tasks.sentences import on_a_line


class PassiveTask(NamedTuple):
    """The argument of ``on_passive``. ``str(task)`` is "code/number".

    ``when`` is the time of the schedule, aware UTC. ``biz_ext`` is the payload, and ``active`` the
    worker that runs the task, "host:pid:token", ``since`` a time, aware UTC, in its ``term``: as
    they were at the last look, which comes as often as a heartbeat. ``using`` is the database.
    """

    biz_code: str
    biz_num: str
    when: datetime
    biz_ext: Any
    active: str
    since: datetime
    term: int
    using: str

    def __str__(self) -> str:
        return on_a_line(f"{self.biz_code}/{self.biz_num}")
