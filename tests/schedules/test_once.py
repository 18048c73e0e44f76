"""Once."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import At

UTC = timezone.utc
WHEN = datetime(2026, 12, 24, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_it_fires_once():
    assert At(WHEN).next_after(None, WHEN - HOUR) == WHEN
    assert At(WHEN).next_after(None, WHEN) is None
    assert At(WHEN).next_after(WHEN, WHEN + HOUR) is None


def test_the_text_keeps_the_offset_and_the_value_is_the_instant():
    at = At(WHEN.astimezone(ZoneInfo("Asia/Shanghai")))

    assert str(at) == "at 2026-12-24T18:00:00+08:00"
    assert at == At(WHEN)
    assert hash(at) == hash(At(WHEN))


def test_a_time_that_comes_twice_is_equal_to_itself_in_other_zones():
    second = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)

    assert At(second) == At(second.astimezone(UTC))
    assert At(second) != At(second.replace(fold=0))


def test_options():
    at = At(WHEN, start=WHEN, end=WHEN, jitter=timedelta(hours=3), count=1)

    assert at.next_after(None, WHEN - HOUR) == WHEN
    assert at.jitter == timedelta(hours=3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"end": WHEN - HOUR}, "at is after its end"),
        ({"start": WHEN + HOUR}, "at is before its start"),
        ({"count": 1}, "count needs a start"),
    ],
)
def test_what_can_never_fire_is_refused(options, sentence):
    with pytest.raises(TaskValueError, match=sentence):
        At(WHEN, **options)


def test_only_aware_datetimes():
    with pytest.raises(TaskValueError, match="at must be aware"):
        At(datetime(2026, 1, 1))
    with pytest.raises(TaskTypeError, match="at must be a datetime"):
        At("2026-12-24")  # type: ignore[arg-type]
    with pytest.raises(TaskValueError, match="at is out of the"):
        At(datetime.max.replace(tzinfo=timezone(-HOUR)))
