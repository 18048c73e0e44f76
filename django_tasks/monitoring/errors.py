"""The message of an error, out of the text that was kept of it: a traceback, or its end."""

from django_tasks.monitoring.words import class_name

LONG_MESSAGE = 1000  # characters of a message
LONGEST_LINE = 300  # characters of an error in a list


def message_of(error: str, exception: str = "") -> str:
    """The message at the end of a traceback: from the last line that names the exception on."""
    lines = error.rstrip().splitlines()
    name = class_name(exception)
    for place in range(len(lines) - 1, -1, -1) if name else ():
        head = lines[place].partition(":")[0]
        if head in (name, exception) or head.endswith(f".{name}"):
            return _cut("\n".join(lines[place:]), LONG_MESSAGE)
    return _cut(_last_words(lines), LONG_MESSAGE)


def error_line(exception: str, error: str) -> str:
    """The class of an exception and the first line of its message, for a list.

    ``exception`` is the path of the class, ``error`` the traceback or its end; either may be empty.
    """
    name = class_name(exception)
    first = message_of(error, exception).partition("\n")[0].strip()
    if not first:
        return name
    first = first.removeprefix(exception.removesuffix(name))
    if name not in first:
        first = f"{name}: {first}"
    return _cut(first, LONGEST_LINE)


def _last_words(lines: list[str]) -> str:
    """The last line with a letter or a figure in it: databases point at a place with "   ^"."""
    return next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
