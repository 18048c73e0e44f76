"""Differences from database to database: a file for each.

Every statement of the store is one text with ``{task}``, the other tables and ``{when}`` quoted by
the dialect (``when`` is a reserved word), and with ``%s`` for values: nothing else is ever put into
it.
"""

from django_tasks.store.dialects.base import Bounds, Dialect, flatten, placeholders
from django_tasks.store.dialects.choice import dialect_of, has_one_writer, judge_of

__all__ = [
    "Bounds",
    "Dialect",
    "dialect_of",
    "flatten",
    "has_one_writer",
    "judge_of",
    "placeholders",
]
