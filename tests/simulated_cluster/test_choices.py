"""Decisions are a seed's; a prefix of them is followed by calm."""

from tests.simulated_cluster.choices import Choices
from tests.simulated_cluster.kept import kept, numbers
from tests.simulated_cluster.shrink import shortest


def decided(seed, limit=1000):
    choices = Choices(seed, limit)
    return [
        (choices.chance(0.5), choices.between(1.0, 2.0), choices.pick("abc"), choices.scale(1, 100))
        for _ in range(20)
    ]


def test_a_seed_always_decides_the_same():
    assert decided(7) == decided(7) != decided(8)


def test_a_prefix_decides_as_the_whole_and_then_nothing_happens():
    assert decided(7, limit=40)[:10] == decided(7)[:10]
    assert decided(7, limit=40)[10:] == [(False, 1.0, "a", 1.0)] * 10


def test_the_shortest_prefix_has_failed_itself():
    played = []

    def fails(limit):
        played.append(limit)
        return limit >= 1234

    assert shortest(1_000_000, fails) == 1234
    assert 1234 in played


def test_kept_seeds_are_the_first_words_of_their_lines():
    assert list(numbers(["# remark", "", "12 a1b2c3 why", "7"])) == [12, 7]
    assert all(isinstance(seed, int) for seed in kept())
