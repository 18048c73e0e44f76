"""The traceback of a handler's error as a row can keep it."""

import traceback
from pathlib import Path

from django_tasks import redaction
from django_tasks.host import interrupts
from django_tasks.sentences import in_english

# The longest error text that a row keeps; the end of a traceback says most.
ERROR_LENGTH = 10_000

# Of the path of an exception's class.
PATH_LENGTH = 200

_WORKER = Path(__file__).parent
_OURS = str(_WORKER), str(_WORKER.parent / "functions"), interrupts.__file__


def error_text(error: BaseException) -> str:
    """The traceback of ``error``, at most ERROR_LENGTH characters. Raises nothing.

    PostgreSQL cannot store NUL, and no database lone surrogates: they are replaced, so that the run
    still ends as it should. Passwords are masked: more people read the table than the settings.
    The frames of ours before those of the handler are left out.
    """
    try:
        with in_english():  # the row is read in all languages, and searched in one
            text = _traceback(error)
    except BaseException:  # noqa: BLE001 - an exception's own methods, which it calls, may raise
        text = f"{type(error).__name__} (its traceback cannot be formatted)"
    text = text.encode("utf-8", "replace").decode().replace("\0", "\\0")
    return redaction.redacted_tail(text, ERROR_LENGTH)


def class_path(error: BaseException) -> str:
    """The path of an error's class, as an import has it; cut if it is very long."""
    kind = type(error)
    path = f"{kind.__module__}.{kind.__qualname__}"
    return path.encode("utf-8", "replace").decode().replace("\0", "")[:PATH_LENGTH]


def _traceback(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
