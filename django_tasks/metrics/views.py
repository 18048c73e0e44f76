"""The view that Prometheus scrapes, and who may see it: a person, or a scraper with its token."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_tasks.conf import options
from django_tasks.metrics.collector import Using
from django_tasks.metrics.page import metrics_page

PERMISSION = "django_tasks.view_task"


@login_not_required  # LoginRequiredMiddleware would send a scraper with its token to a form
@transaction.non_atomic_requests  # else a database that is down is an error before the view
@never_cache
@require_safe
def metrics(
    request: HttpRequest, using: Using = None, keep_connections: bool = False
) -> HttpResponse:
    """The metrics of the tasks; ``using`` and ``keep_connections`` as for ``TaskCollector``.

    For those with the token of METRICS_TOKEN, and for users who may view tasks; others get 401.
    """
    if not _may_see(request):
        text = gettext("The metrics are for those who may view tasks, or have the token.")
        headers = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(f"{text}\n", "text/plain; charset=utf-8", 401, headers=headers)
    accept = request.headers.get("Accept", "")
    page = metrics_page(accept, using, keep_connections=keep_connections)
    return HttpResponse(page.body, content_type=page.content_type)


def _may_see(request: HttpRequest) -> bool:
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
