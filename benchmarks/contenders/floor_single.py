"""The floor of useful work one by one: see ``floor_work``."""

from benchmarks.contenders.floor_work import Singles

CONTENDER = Singles
