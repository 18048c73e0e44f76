"""The config of a worker: from the settings, but for what is wished for."""

from typing import Any

import pytest
from django.test import override_settings

from django_tasks.exceptions import TaskValueError
from django_tasks.store.dialects import Bounds
from django_tasks.worker.config import worker_config
from tests.worker.parts import USING


def test_what_is_not_wished_for_is_as_the_settings_say() -> None:
    with override_settings(DJANGO_TASKS={"THREADS": 3, "LEASE": 60, "BATCH_SIZE": 7}):
        config = worker_config(USING, lease=12)
    assert (config.using, config.threads, config.lease, config.batch_size) == (USING, 3, 12.0, 7)
    assert (config.queues, config.codes, config.max_tasks) == ((), (), None)


@pytest.mark.parametrize("name", ["queues", "codes"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [("mail", ("mail",)), (["mail", "push"], ("mail", "push")), ((), ())],
    ids=str,
)
def test_names_are_a_tuple_and_a_lone_one_is_one(
    name: str, value: Any, expected: tuple[str, ...]
) -> None:
    assert getattr(worker_config(USING, **{name: value}), name) == expected


@pytest.mark.parametrize(
    ("name", "value"), [("lease", "soon"), ("threads", 0), ("queues", 5), ("codes", None)], ids=str
)
def test_a_wish_that_cannot_be_is_named_with_its_value(name: str, value: Any) -> None:
    with pytest.raises(TaskValueError) as caught:
        worker_config(USING, **{name: value})
    assert (caught.value.field, caught.value.value) == (name, value)


def test_the_error_says_what_such_a_value_must_be() -> None:
    with pytest.raises(TaskValueError) as caught:
        worker_config(USING, threads=0)
    assert str(caught.value) == "threads must be a whole number from 1 to 1000: 0"


def test_a_wish_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="thread_count"):
        worker_config(USING, thread_count=3)


def test_the_bounds_are_parts_of_the_lease() -> None:
    config = worker_config(USING, lease=60)
    assert config.heartbeat_interval == 20
    assert config.heartbeat_bounds == Bounds(lock_wait=5, statement=10)
    assert config.poller_bounds == Bounds(lock_wait=10, statement=30)
