"""The admin's log of changes: who did what, in the language of the project."""

from collections.abc import Callable, Sequence

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.db import models
from django.http import HttpRequest
from django.utils import translation

# Words that are made when the language is known.
Say = Callable[[], object]


def in_project_words(say: Say) -> str:
    """Say something in the project's language: a row has one text for readers of all languages."""
    with translation.override(settings.LANGUAGE_CODE):
        return str(say())


def note(request: HttpRequest, rows: Sequence[models.Model], flag: int, say: Say) -> None:
    """Write who did what into the log, a line for each row."""
    if rows:
        words = in_project_words(say)
        LogEntry.objects.log_actions(str(request.user.pk), rows, flag, words)
