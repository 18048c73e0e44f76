"""Guesses at the name that is meant, where one is written that means nothing."""

from collections.abc import Collection
from difflib import get_close_matches

from django_tasks.sentences import Sentence
from django_tasks.sentences import sentence as _

# Below it, a hint is more often wrong than right: "weekday" is near "week".
NEAR = 0.8


def closest(name: str, names: Collection[str]) -> str | None:
    """The one of ``names`` that ``name`` is nearly spelt as, in whatever case; or None."""
    folded = {each.lower(): each for each in sorted(names)}
    near = get_close_matches(name.lower(), folded, 1, NEAR)
    return folded[near[0]] if near else None


def did_you_mean(refusal: Sentence, near: str | None) -> Sentence:
    """A refusal of a name that means nothing, with the one that is near."""
    if near is None:
        return refusal
    return _("%(refusal)s; did you mean %(near)r?", refusal=refusal, near=near)
