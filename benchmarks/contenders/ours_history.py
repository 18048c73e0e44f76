"""django_tasks with a line in its history for every run, where the default keeps problems only."""

import os

from benchmarks.contenders.ours import Ours


class KeepingAll(Ours):
    settings = 'as ours, with HISTORY = "all"'

    def prepare(self) -> None:
        os.environ["BENCHMARK_HISTORY"] = "all"
        super().prepare()


CONTENDER = KeepingAll
