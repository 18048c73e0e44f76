"""The view that Prometheus scrapes."""

from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_tasks.metrics.access import may_see
from django_tasks.metrics.collector import Using
from django_tasks.metrics.page import metrics_page


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
    if not may_see(request):
        text = gettext("The metrics are for those who may view tasks, or have the token.")
        headers = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(f"{text}\n", "text/plain; charset=utf-8", 401, headers=headers)
    accept = request.headers.get("Accept", "")
    page = metrics_page(accept, using, keep_connections=keep_connections)
    return HttpResponse(page.body, content_type=page.content_type)
