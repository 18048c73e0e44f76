"""One call of a function, as the payload of its task has it. No Django."""

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.keys import BIZ_CODE_LENGTH, BIZ_NUM_LENGTH, check_key

# Django promises ids of fewer than 64.
ID_LENGTH = 63
_CUT_LENGTH, _HASH_LENGTH = 40, 8
# A payload that has them is a call.
CALL_WORDS = ("call", "life")


@dataclass(frozen=True, slots=True)
class Call:
    """The facts of a call that its row and its runs keep.

    ``path`` is that of the function; times are as Django gave them, aware under USE_TZ. ``life`` is
    random: it tells one enqueue of a key from the next one. ``results`` are those that the history
    keeps. ``options``, JSON text as a row has it, are for the backend to which it is handed.
    """

    path: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    queue_name: str
    priority: int
    run_after: datetime | None
    enqueued_at: datetime
    life: str
    key: str | None = None
    results: str = "all"
    options: str | None = None

    def payload(self) -> dict[str, Any]:
        """The payload of its task."""
        return {
            "call": self.path,
            "args": self.args,
            "kwargs": self.kwargs,
            "backend": self.backend,
            "queue_name": self.queue_name,
            "priority": self.priority,
            "run_after": self.run_after and self.run_after.isoformat(),
            "enqueued_at": self.enqueued_at.isoformat(),
            "life": self.life,
            "key": self.key,
            "results": self.results,
            "options": self.options and json.loads(self.options),
        }


class Told(NamedTuple):
    """A call, and what its run has left behind in the history, if it has ended."""

    call: Call
    facts: dict[str, Any]

    @property
    def return_value(self) -> Any:
        return self.facts.get("return_value")

    @property
    def handed(self) -> tuple[str, str] | None:
        """The alias and the id under which another backend has it, if one has."""
        handed = self.facts.get("handed")
        return (handed["backend"], handed["id"]) if handed else None


def told_of_text(text: str | None) -> Told | None:
    """The call that a payload, or the detail of a run, tells of; None if it tells of none.

    Both are JSON texts. Read by json's own decoder: the project's may make of arguments what
    Django's framework cannot take.
    """
    try:
        facts = json.loads(text or "null")
        run_after = facts["run_after"]
        call = Call(
            path=str(facts["call"]),
            args=list(facts["args"]),
            kwargs=dict(facts["kwargs"]),
            backend=facts["backend"],
            queue_name=facts["queue_name"],
            priority=facts["priority"],
            run_after=run_after and datetime.fromisoformat(run_after),
            enqueued_at=datetime.fromisoformat(facts["enqueued_at"]),
            life=facts["life"],
            # Words that came later: a neighbour of another release may not have them.
            key=facts.get("key"),
            results=facts.get("results", "all"),
            options=json.dumps(options) if (options := facts.get("options")) else None,
        )
    except (KeyError, TypeError, ValueError):
        return None
    return Told(call, facts)


def is_like_a_call(payload: object) -> bool:
    """Tell if a payload was meant to be a call, readable or not."""
    return isinstance(payload, dict) and set(CALL_WORDS) <= payload.keys()


def code_of(path: str) -> str:
    """A path cut to 40 characters: of a longer one, a hash of it all and its end."""
    if len(path) <= _CUT_LENGTH:
        return path
    digest = sha256(path.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{digest}~{path[-(_CUT_LENGTH - _HASH_LENGTH - 1) :]}"


def id_of(biz_code: str, biz_num: str) -> str:
    """The id of a call's result."""
    return f"{biz_code}:{biz_num}"


def key_of(result_id: object) -> tuple[str, str] | None:
    """The code and the number of a result's id; None if it is none. A code has no colon."""
    code, _, num = str(result_id).partition(":")
    try:
        key = check_key("code", code, BIZ_CODE_LENGTH), check_key("number", num, BIZ_NUM_LENGTH)
    except ValueError:
        return None
    return None if is_schedule_num(num) else key


def longest_key(biz_code: str) -> int:
    """The most characters that a key, or a random number, of this code's calls may have."""
    return min(BIZ_NUM_LENGTH, ID_LENGTH - len(biz_code) - 1)
