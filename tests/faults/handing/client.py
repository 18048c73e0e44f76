"""The client: it adds tasks, some of them again while they wait or run, and journals each add.

python -m tests.faults.handing.client --seed 7 --adds 3000 --seconds 5
"""

import argparse
import random
from datetime import timedelta
from threading import Event

import django

from tests.faults import journal

HOT_KEYS = 50
_never = Event()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--adds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    django.setup()
    chance = random.Random(options.seed)
    for number in range(options.adds):
        is_hot = chance.random() < 0.3
        _add(f"hot-{chance.randrange(HOT_KEYS)}" if is_hot else str(number), chance.random())
        _never.wait(options.seconds / options.adds)
    journal.marker("added").touch()


def _add(num: str, seconds: float) -> None:
    """Add a task that is due in so many seconds, and journal it once it is stored."""
    from django_tasks.api import add_task

    nonce = journal.unique()
    task = add_task("handed", num, when=timedelta(seconds=seconds), biz_ext={"nonce": nonce})
    journal.write("added", num=num, nonce=nonce, when=task.when.timestamp())


if __name__ == "__main__":
    main()
