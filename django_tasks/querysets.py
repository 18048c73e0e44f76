"""Reads that mean the same on every database."""

import re

from django.db.models import Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import Exact, GreaterThan

from django_tasks.models import Status, Task


def key(biz_code: str, biz_num: str) -> Q:
    """The one task of a key."""
    return Q(biz_code=biz_code, biz_num=biz_num)


def matching(biz_code: str, fragment: str, match: str) -> Q:
    """Tasks of a code whose number is, begins with or contains ``fragment``, letter for letter.

    Not LIKE: SQLite's takes 'a' for 'A', and % and _ would mean more than themselves.
    """
    code = Q(biz_code=biz_code)
    if match == "exact":
        return code & Q(biz_num=fragment)
    place = StrIndex("biz_num", Value(fragment))
    found = Exact(place, 1) if match == "prefix" else GreaterThan(place, 0)
    return code & Q(found)


def pending_like(biz_code: str, fragment: str, using: str) -> "QuerySet[Task]":
    """Pending tasks of a code whose number contains ``fragment`` in any case, earliest first."""
    pending = Task._base_manager.using(using).filter(biz_code=biz_code, status=Status.PENDING)
    if fragment:
        # A pattern rather than LIKE: the column compares bytes on MySQL, and SQLite knows the
        # case of ASCII letters only.
        pending = pending.filter(biz_num__iregex=re.escape(fragment))
    return pending.order_by("when", "id")


from django.db.models import QuerySet  # noqa: E402
