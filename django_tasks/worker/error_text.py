"""The traceback of a handler's error as a row can keep it."""

import traceback
from pathlib import Path

from django_tasks import redaction
from django_tasks.host import interrupts

# The longest error text that a row keeps; the end of a traceback says most.
ERROR_LENGTH = 10_000

_OURS = str(Path(__file__).parent), interrupts.__file__


def error_text(error: BaseException) -> str:
    """The traceback of ``error``, at most ERROR_LENGTH characters. Raises nothing.

    PostgreSQL cannot store NUL, and no database lone surrogates: they are replaced, so that the run
    still ends as it should. Passwords are masked: more people read the table than the settings.
    The worker's own frames before the handler's are left out.
    """
    try:
        text = _traceback(error)
    except BaseException:  # noqa: BLE001 - an exception's own methods, which it calls, may raise
        text = f"{type(error).__name__} (its traceback cannot be formatted)"
    text = text.encode("utf-8", "replace").decode().replace("\0", "\\0")
    return redaction.redacted_tail(text, ERROR_LENGTH)


def _traceback(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
