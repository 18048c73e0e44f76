"""The right to see the metrics: a person's permission, or the token of a scraper."""

from typing import Any

from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from django_tasks.conf import options

PERMISSION = "django_tasks.view_task"


def may_see(request: HttpRequest) -> bool:
    """Tell if the request has the token of METRICS_TOKEN, or a user who may view tasks."""
    return _has_token(request) or _has_user(request)


def _has_token(request: HttpRequest) -> bool:
    token = options().metrics_token
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if not token or scheme.lower() != "bearer":
        return False
    return constant_time_compare(given.strip(), token)


def _has_user(request: HttpRequest) -> bool:
    user: Any = getattr(request, "user", None)  # a project may have no users
    return user is not None and user.is_active and user.has_perm(PERMISSION)
