"""Statements of ours that a server rejects for what they say: no waiting cures that."""

from types import TracebackType
from typing import NamedTuple

from django_tasks.redaction import without_secrets
from django_tasks.sentences import Sentence
from django_tasks.sentences import sentence as _
from django_tasks.store.connection import trial_session
from django_tasks.store.dialects import judge_of
from django_tasks.store.errors import Kind, kind_of

PACKAGE = "django_tasks."
# The ways that all statements take; the function above them is the statement's own.
_WAYS = (
    "django_tasks.store.answers",
    "django_tasks.store.dialects.",
    "django_tasks.store.transactions",
)
_TABLES = _("works with its tables")
# By the module whose function has sent the statement.
_PURPOSES = {
    "django_tasks.store.connection": _("sets up a session"),
    "django_tasks.store.clock": _("reads the clock"),
    "django_tasks.store.workers": _("keeps a worker's place among the others"),
    "django_tasks.store.lanes": _("looks for due tasks"),
    "django_tasks.store.claim": _("claims tasks"),
    "django_tasks.store.gates": _("keeps the limits of codes"),
    "django_tasks.store.finish": _("writes the ends of runs"),
    "django_tasks.store.ownership": _("writes the ends of runs"),
    "django_tasks.store.rescue": _("rescues tasks of workers that have died"),
    "django_tasks.store.runs": _("keeps the history"),
    "django_tasks.store.minutes": _("counts runs by the minute"),
}


class Rejection(NamedTuple):
    """The function that has sent the statement, what for, and what the server says.

    ``number``: MySQL's and SQLite's numbers, PostgreSQL's states; empty if there is none.
    """

    place: str
    purpose: Sentence
    number: str
    text: str

    def sentence(self, using: str) -> Sentence:
        """The same for people."""
        return _(
            "The database %(using)s rejects a statement by which django_tasks %(purpose)s: "
            "%(answer)s",
            using=using,
            purpose=self.purpose,
            answer=f"{self.number} {self.text}".strip(),
        )


def rejection_of(error: BaseException, *, using: str) -> Rejection | None:
    """The rejection that ``error`` tells of, if a statement on ``using`` was rejected."""
    if kind_of(error, using=using) is not Kind.REJECTED:
        return None
    module, function = _sender(error.__traceback__)
    cause = error.__cause__ or error
    text = next((arg for arg in reversed(cause.args) if isinstance(arg, str)), str(cause))
    return Rejection(
        f"{module}.{function}",
        _PURPOSES.get(module, _TABLES),
        judge_of(using).number(cause),
        without_secrets(text.strip().partition("\n")[0]),
    )


def session_rejection(using: str) -> Rejection | None:
    """Set up a session as a worker does, on a connection of its own that is closed again.

    The rejection of a statement of that, if there is one. Other errors of the database pass.
    """
    try:
        with trial_session(using):
            return None
    except Exception as error:
        if rejection := rejection_of(error, using=using):
            return rejection
        raise


def _sender(trace: TracebackType | None) -> tuple[str, str]:
    """Module and name of the function of ours that has sent the statement."""
    found = ("", "")
    while trace is not None:
        frame = trace.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(PACKAGE) and not module.startswith(_WAYS):
            found = module, frame.f_code.co_name
        trace = trace.tb_next
    return found
