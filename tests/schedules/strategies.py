"""Every kind of schedule, for hypothesis."""

from datetime import datetime, time, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from django_tasks.exceptions import TaskValueError
from django_tasks.schedules import AllOf, AnyOf, At, Cron, Every, Schedule

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Shanghai",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
)
UTC = timezone.utc

instants = st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))
offsets = st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1), timezones=offsets)
gaps = st.sampled_from((None, "skip", "next", "shift"))
folds = st.sampled_from((None, "first", "second", "both"))
zones = st.sampled_from(ZONES)


def possible(call: Any, *args: Any, **kwargs: Any) -> Schedule | None:
    """A schedule, or None if these arguments make none."""
    try:
        schedule = call(*args, **kwargs)
    except TaskValueError:
        return None
    assert isinstance(schedule, Schedule)
    return schedule


def made(call: Any, *args: Any, **kwargs: Any) -> st.SearchStrategy[Schedule]:
    """Schedules of drawn arguments, without those that cannot be."""
    built = st.builds(possible, st.just(call), *args, **kwargs)
    return built.filter(lambda schedule: schedule is not None)  # type: ignore[return-value]


@st.composite
def windows(draw: st.DrawFn, jitter: bool = True) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["start"] = draw(moments)
        if draw(st.booleans()):
            options["count"] = draw(st.integers(1, 20))
    if draw(st.booleans()):
        options["end"] = draw(moments)
    if jitter and draw(st.booleans()):
        options["jitter"] = draw(st.integers(1, 60) | st.timedeltas(timedelta(0), timedelta(1)))
    return options


def _with_window(values: dict[str, Any], window: dict[str, Any]) -> dict[str, Any]:
    return {**values, **window}


def _keyed(call: Any, values: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Schedule]:
    both = st.builds(_with_window, values, windows())
    return made(lambda kwargs: call(**kwargs), both)


exact = _keyed(
    Every,
    st.fixed_dictionaries(
        {},
        optional={
            "weeks": st.integers(0, 5),
            "days": st.integers(0, 400),
            "hours": st.integers(0, 50),
            "minutes": st.integers(0, 90),
            "seconds": st.integers(0, 90) | st.floats(0, 90),
        },
    ),
)
_dates = {"day": st.integers(1, 31) | st.none(), "at": st.none() | st.times().map(str)}
_clocks = {"tz": zones | st.none(), "gap": gaps, "fold": folds}
monthly = _keyed(
    Every,
    st.fixed_dictionaries(
        {"months": st.integers(0, 30), "years": st.integers(0, 3), **_dates, **_clocks}
    ),
)
daily = _keyed(
    Every,
    st.fixed_dictionaries(
        {
            "days": st.integers(0, 30),
            "weeks": st.integers(0, 3),
            "at": st.sampled_from(("00:00", "2:30", "23:59:59", time(9))),
            **_clocks,
        }
    ),
)
mixed = _keyed(
    Every,
    st.fixed_dictionaries(
        {
            "months": st.integers(1, 30),
            "days": st.integers(1, 40),
            "at": st.none() | st.times().map(str),
            **_clocks,
        }
    ),
)
expressions = st.tuples(
    st.sampled_from(("0", "30", "*", "*/5", "1-59/7", "0,59")),
    st.sampled_from(("0", "2", "*", "*/5", "9-18", "0,23")),
    st.sampled_from(("*", "1", "L", "LW", "29", "31", "*/10")),
    st.sampled_from(("*", "2", "jan,feb", "3-10")),
    st.sampled_from(("*", "1-5", "sun", "5L", "MON#1", "7")),
).map(" ".join)
seconds_expressions = st.tuples(st.sampled_from(("0", "*/20", "59")), expressions).map(" ".join)
crons = _keyed(
    Cron,
    st.fixed_dictionaries({"expression": expressions | seconds_expressions, **_clocks}),
)
named_fields = _keyed(
    Cron,
    st.fixed_dictionaries(
        _clocks,
        optional={
            "year": st.sampled_from(("2027-2029", "*/2", 2031)),
            "month": st.sampled_from((2, "jan,feb", "3-10", "*/5")),
            "day": st.sampled_from((1, 29, "31", "last", "1st mon,3rd wed", "last fri", "*/10")),
            "week": st.sampled_from((1, "1-26", "53", "*/2")),
            "day_of_week": st.sampled_from((0, "1-4/2", "mon-fri", "sat,sun")),
            "hour": st.sampled_from((0, 2, "*", "*/5", "9-18", "0,23")),
            "minute": st.sampled_from((0, 30, "*", "*/5", "1-59/7", "0,59")),
            "second": st.sampled_from((0, "*", "*/20", 59)),
        },
    ),
)
once = made(lambda when, window: At(when, **window), moments, windows())
simple = exact | monthly | daily | mixed | crons | named_fields | once


def _several(
    kind: type[AnyOf] | type[AllOf], parts: st.SearchStrategy[Schedule]
) -> st.SearchStrategy[Schedule]:
    return made(
        lambda some, window: kind(*some, **window),
        st.lists(parts.filter(lambda part: not part.jitter), min_size=1, max_size=3),
        windows(),
    )


def _hourly(start: datetime) -> Schedule:
    return Every(hours=1, start=start.replace(minute=0, second=0, microsecond=0))


# Schedules that agree now and then; any two of ``simple`` never do, and say so slowly.
agreeing = st.sampled_from(
    (
        AllOf(Cron("0 9 * * *"), Cron(day_of_week="mon-fri", hour="*/3")),
        AllOf(Cron("0 0 29 2 *"), Cron("0 0 * * 0")),
        AllOf(
            Every(months=1, day=31, tz="UTC"),
            Cron("0 0 * * 1-5", "UTC", end=datetime.max.replace(tzinfo=UTC) - timedelta(days=9)),
        ),
    )
) | st.builds(lambda start: AllOf(_hourly(start), Cron("0 9 * * *")), instants)
combined = _several(AnyOf, simple) | agreeing
schedules = simple | combined | _several(AnyOf, simple | combined)
