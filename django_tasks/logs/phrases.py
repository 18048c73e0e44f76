"""Parts of sentences: numbers of things, keys, times, reasons in short, the facts of a run."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django_tasks import redaction
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import on_a_line

LONGEST_REASON = 300
MOST_KEYS = 20  # that a line names


def quantity(count: int, one: str, many: str = "") -> str:
    """Such as "1 task", "2 tasks"."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def keys_of(tasks: Iterable[object]) -> list[str]:
    """The keys that a line has as a field: those that it names in words."""
    return list(map(str, tasks))[:MOST_KEYS]


def named(tasks: Iterable[object], count: int = 0) -> str:
    """The keys of ``tasks`` behind a colon, not too many of them; ``count`` are meant in all."""
    keys = list(map(str, tasks))
    if not keys:
        return ""
    first = keys[:MOST_KEYS]
    left = max(count, len(keys)) - len(first)
    return f": {', '.join(first)}{f' and {left} more' if left else ''}"


def run_facts(task: RunningTask, seconds: float) -> str:
    return (
        f"(attempt {task.attempt}, took {seconds * 1000:.1f} ms,"
        f" {task.lateness * 1000:.1f} ms late)"
    )


def in_short(error: BaseException) -> str:
    """An error's reason, put into words by the thread that writes the line.

    A project's code may have a part in that: an exception's own text, and what is to be hidden.
    """
    kind, text = type(error).__name__, str(error)
    text = text.strip().split("\n")[0].replace("\0", "\\0")
    text = redaction.redacted_head(text, LONGEST_REASON)
    return f"{kind}: {text}" if text else kind


def harmless(value: Any) -> Any:
    """A field that a formatter may put into a line."""
    return on_a_line(value) if isinstance(value, str) else value


def local_time(when: datetime) -> str:
    return when.astimezone().isoformat(sep=" ", timespec="milliseconds")
