"""Schedules around every change of clocks: what fires, against what clocks show.

    python -m tests.schedules.daylight [--sample 300] [--seed 7]

Without a sample all changes of all zones from 2000 to 2037 are gone through. The exit code is 1 if
one fire is missing, too many or at another time.
"""

import argparse
import random
import sys
import zoneinfo
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from itertools import product
from multiprocessing import get_context
from typing import NamedTuple

from django_tasks.schedules import Cron, Every, Schedule
from django_tasks.schedules.wall_clock import Fold, Gap
from tests.schedules.clocks import HOUR, MINUTE, Change, Days, changes

GAPS: tuple[Gap, ...] = ("skip", "next", "shift")
FOLDS: tuple[Fold, ...] = ("first", "second", "both")
CHUNK = 50

Policy = tuple[Gap, Fold]


class Case(NamedTuple):
    """A schedule, the times of day it wants, and how far around a change to look."""

    schedule: Callable[[Gap, Fold], Schedule]
    wanted: Callable[[datetime], bool]
    around: timedelta


class Seen(NamedTuple):
    """The results of some changes."""

    changes: int = 0
    schedules: int = 0
    fires: int = 0
    wrong: tuple[str, ...] = ()

    def and_(self, other: "Seen") -> "Seen":
        return Seen(
            self.changes + other.changes,
            self.schedules + other.schedules,
            self.fires + other.fires,
            self.wrong + other.wrong,
        )


def all_changes(zones: list[str]) -> list[Change]:
    """The changes of ``zones``; of zones that change their clocks alike at the same time, one."""
    found: dict[tuple[object, ...], Change] = {}
    for zone in zones:
        for change in changes(zone):
            found.setdefault(change[1:], change)
    return list(found.values())


def cases(change: Change) -> Iterator[Case]:
    """Daily ones inside, at both ends and outside of what is skipped or comes twice, and others
    that mean an interval."""
    middle = change.length // 2 // MINUTE * MINUTE
    for wall in (
        change.jumped - HOUR,
        change.jumped,
        change.jumped + middle,
        change.jumped + change.length - MINUTE,
        change.jumped + change.length,
    ):
        yield from _daily(change, wall)
    for expression, minutes in (("0 * * * *", 60), ("*/15 * * * *", 15)):
        yield _interval(change, expression, minutes)


def _daily(change: Change, wall: datetime) -> Iterator[Case]:
    def wanted(each: datetime) -> bool:
        return (each.hour, each.minute) == (wall.hour, wall.minute)

    def cron(gap: Gap, fold: Fold) -> Schedule:
        return Cron(f"{wall.minute} {wall.hour} * * *", change.zone, gap=gap, fold=fold)

    def dates(gap: Gap, fold: Fold) -> Schedule:
        return Every(days=1, at=f"{wall:%H:%M}", tz=change.zone, gap=gap, fold=fold)

    around = change.length + 13 * HOUR
    yield Case(cron, wanted, around)
    yield Case(dates, wanted, around)


def _interval(change: Change, expression: str, minutes: int) -> Case:
    def wanted(each: datetime) -> bool:
        return each.minute % minutes == 0

    def cron(gap: Gap, fold: Fold) -> Schedule:
        return Cron(expression, change.zone, gap=gap, fold=fold)

    return Case(cron, wanted, change.length + 2 * HOUR)


def policies(change: Change) -> list[Policy]:
    """Those that tell the fires around a change: the others do not matter there."""
    if change.is_gap:
        return [(gap, "first") for gap in GAPS]
    return [("next", fold) for fold in FOLDS]


def all_policies(change: Change) -> list[Policy]:
    return list(product(GAPS, FOLDS))


Policies = Callable[[Change], list[Policy]]


def look(change: Change, which: Policies) -> Seen:
    """Every case and some policies around one change."""
    reach = 14 * HOUR + 2 * change.length
    days = Days(change.zone, change.instant - reach, change.instant + reach)
    seen = Seen(changes=1)
    for case in cases(change):
        walls = days.walls(case.wanted)
        first, last = change.instant - case.around, change.instant + case.around
        for gap, fold in which(change):
            expected = [each for each in days.fires(walls, gap, fold) if first < each <= last]
            schedule = case.schedule(gap, fold)
            found = fires(schedule, first, last, len(expected) + 2)
            if found != expected:
                seen = seen.and_(Seen(wrong=(_wrong(change, schedule, expected, found),)))
            seen = seen.and_(Seen(schedules=1, fires=len(expected)))
    return seen


def fires(schedule: Schedule, first: datetime, last: datetime, most: int) -> list[datetime]:
    """The fires with first < fire <= last, no more than ``most``."""
    found: list[datetime] = []
    now = first
    while len(found) < most:
        fire = schedule.next_after(None, now)
        if fire is None or fire > last:
            break
        assert fire > now
        found.append(fire)
        now = fire
    return found


def _wrong(
    change: Change, schedule: Schedule, expected: list[datetime], found: list[datetime]
) -> str:
    missing = [str(each) for each in expected if each not in found]
    surplus = [str(each) for each in found if each not in expected]
    return f"{change}: {schedule}: missing {missing}, too many {surplus}"


def look_at(some: list[Change], which: Policies = all_policies) -> Seen:
    seen = Seen()
    for change in some:
        seen = seen.and_(look(change, which))
    return seen


def zones() -> list[str]:
    """All zones but those that are no places: with leap seconds, or the machine's own."""
    odd = {"localtime", "Factory", "posixrules"}
    return sorted(zoneinfo.available_timezones() - odd)


def sample(number: int, seed: int) -> list[Change]:
    """So many changes, of zones drawn first: all changes of all zones take minutes to find."""
    draw = random.Random(seed)
    found: list[Change] = []
    for zone in draw.sample(zones(), len(zones())):
        here = changes(zone)
        found += draw.sample(here, min(len(here), 10))
        if len(found) >= number:
            break
    return found[:number]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, help="so many changes instead of all")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--jobs", type=int, default=None, help="processes; by default one a core")
    options = parser.parse_args()
    if options.sample:
        say(f"Seed {options.seed}")
    some = sample(options.sample, options.seed) if options.sample else all_changes(zones())
    chunks = [some[place : place + CHUNK] for place in range(0, len(some), CHUNK)]
    seen = Seen()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for one in pool.map(look_at, chunks):
            seen = seen.and_(one)
            for wrong in one.wrong:
                say(wrong)
    say(
        f"{len(zones())} zones, {seen.changes:,} changes of clocks, {seen.schedules:,} schedules, "
        f"{seen.fires:,} fires: {len(seen.wrong)} schedules wrong"
    )
    return int(bool(seen.wrong))


if __name__ == "__main__":
    sys.exit(main())
