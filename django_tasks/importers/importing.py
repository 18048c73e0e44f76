"""Jobs that were found become tasks, each under the ``biz_code`` of its function."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from django_tasks.client.adding import add_task, add_tasks
from django_tasks.client.arguments import checked_task
from django_tasks.exceptions import TaskException
from django_tasks.importers.found import CannotCome, Found, Left
from django_tasks.models import Task
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.store import search
from django_tasks.store.aliases import read_alias


class CodeNames:
    """The ``biz_code`` of a function: as the user says, else its bare name if that is its own."""

    def __init__(self, said: Mapping[str, str], functions: Iterable[str]) -> None:
        self._said = said
        self._namesakes: dict[str, set[str]] = defaultdict(set)
        for function in functions:
            self._namesakes[self._default(function)].add(function)

    def code_of(self, function: str) -> str:
        """The code; CannotCome if other functions would have the same by default."""
        if function in self._said:
            return self._said[function]
        code = self._default(function)
        if others := sorted(self._namesakes[code] - {function}):
            raise CannotCome(
                _(
                    "%(function)s and %(others)s would both be %(code)r: say --code %(function)s=…",
                    function=function,
                    others=others[0],
                    code=code,
                )
            )
        return code

    def _default(self, function: str) -> str:
        return self._said.get(function) or re.split("[:.]", function)[-1]


BATCH = 500


class Arrival(NamedTuple):
    """A job and the task that it becomes; ``is_there`` tells if there is one under that key."""

    job: Found
    task: Task
    is_there: bool


def tasks_for(
    jobs: Sequence[Found | Left], codes: CodeNames, *, using: str
) -> Iterator[Arrival | Left]:
    """Say of each job which task it becomes, or why it stays. Changes nothing."""
    for start in range(0, len(jobs), BATCH):
        made = [_made(job, codes, using) for job in jobs[start : start + BATCH]]
        keys = [(each[1].biz_code, each[1].biz_num) for each in made if not isinstance(each, Left)]
        rows = search.with_keys(keys, using=read_alias(using))
        there = {(row.biz_code, row.biz_num) for row in rows}
        for each in made:
            if isinstance(each, Left):
                yield each
            else:
                job, task = each
                yield Arrival(job, task, (task.biz_code, task.biz_num) in there)


def _made(job: Found | Left, codes: CodeNames, using: str) -> tuple[Found, Task] | Left:
    if isinstance(job, Left):
        return job
    try:
        task = Task(
            biz_code=codes.code_of(job.function),
            biz_num=job.name,
            when=job.when,
            schedule=job.text,
            options=job.options,
            biz_ext=job.payload,
            queue=job.queue,
        )
        if job.priority is not None:
            task.priority = job.priority
        checked_task(task, using)
    except (CannotCome, TaskException) as error:
        return Left(job.name, said(error))
    return job, task


def add(coming: Sequence[Arrival], *, using: str) -> Iterator[int]:
    """Add tasks in batches, and yield the number of those that each of them added.

    A task that is there stays as it is.
    """
    for start in range(0, len(coming), BATCH):
        batch = coming[start : start + BATCH]
        tasks = [each.task for each in batch if not each.job.is_paused]
        paused = [each.task for each in batch if each.job.is_paused]
        for task in paused:
            add_task(task, paused=True, on_conflict="keep", using=using)
        yield add_tasks(tasks, on_conflict="keep", using=using) + len(paused)
