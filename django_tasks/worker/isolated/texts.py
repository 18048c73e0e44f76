"""A claim and the end of its run as JSON, for the process that runs it in a worker's place.

JSON and not pickle: nothing that is read makes objects of any class but ours.
"""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any, get_args

from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Outcome
from django_tasks.values.runs import HistoryLine

_TIME = "time"
_OUTCOMES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Outcome)}


def claim_to_text(claimed: Claimed) -> str:
    """A claim as JSON."""
    return json.dumps([_plain(value) for value in claimed])


def claim_of_text(text: str) -> Claimed:
    """The claim that ``claim_to_text`` has written."""
    return Claimed._make(_value(each) for each in json.loads(text))


def end_to_text(ended: Ended) -> str:
    """The end of a run as JSON."""
    line = ended.line and [_plain(value) for value in ended.line]
    claim = [_plain(value) for value in ended.claimed]
    facts = [ended.missed, line, ended.late, ended.took]
    return json.dumps([claim, _plain(ended.outcome), *facts])


def end_of_text(text: str) -> Ended:
    """The end that ``end_to_text`` has written. Raises ValueError for any other text."""
    try:
        claim, outcome, missed, line, late, took = json.loads(text)
        return Ended(
            Claimed._make(map(_value, claim)),
            _value(outcome),
            missed,
            line and HistoryLine._make(map(_value, line)),
            late,
            took,
        )
    except (TypeError, KeyError) as error:
        raise ValueError(str(error)) from error


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if type(value).__name__ in _OUTCOMES and isinstance(value, Outcome):
        # Of a class attribute such as ``counts_as`` there is nothing to tell.
        facts = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return {type(value).__name__: facts}
    return value


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == _TIME:
        return datetime.fromisoformat(content)
    return _OUTCOMES[kind](**{name: _value(fact) for name, fact in content.items()})
