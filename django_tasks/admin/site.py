"""Our own pages in anybody's admin site: their addresses, their frame, and their security header.

A page that lists no model is registered as one all the same, a model without a table that no
migration knows: so every admin site shows it on its index and in its side bar, beside the models,
and asks nobody to change the site.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.apps.registry import Apps
from django.conf import settings
from django.contrib.admin.utils import unquote
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.lists import (
    ModelAdminOfAny,
    NothingToEdit,
    OnlyShown,
    in_project_words,
    may,
)
from django_tasks.values.keys import NAME_LENGTH

POLICY = "Content-Security-Policy"
_LOG = _("Log of changes: %(row)s")
# The registry of models that are pages: makemigrations and permissions look at Django's own.
pages = Apps()


class PageModel(models.Model):
    """A page that lists no model, as a model without a table."""

    class Meta:
        abstract = True
        apps = pages
        app_label = "django_tasks"
        managed = False
        default_permissions = ()

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


View = Callable[..., HttpResponseBase]


def author(request: HttpRequest) -> str:
    """The name of the user, as far as a pause can keep it: some projects have longer ones."""
    return request.user.get_username().strip()[:NAME_LENGTH]


def strict(view: View) -> View:
    """Send a policy with a page that lets nothing but the project's own files be loaded or run.

    Not if the project has a middleware for such policies, nor if the response has one already.
    """

    @wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        if not any("csp" in name.lower() for name in settings.MIDDLEWARE):
            response.headers.setdefault(POLICY, policy())
        return response

    return guarded


def policy() -> str:
    """The policy, with the host of the static files if that is another."""
    origin = _origin(static("django_tasks/admin.css"))
    sources = f"'self' {origin}".strip()
    return (
        f"default-src {sources}; img-src {sources} data:; object-src 'none'; base-uri 'self';"
        " form-action 'self'; frame-ancestors 'self'"
    )


def _origin(address: str) -> str:
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme or 'https'}://{host}" if host else ""


class FramedPages(ModelAdminOfAny):
    """Pages of ours in the frame of the site."""

    def address(self, name: str, *args: Any, **query: Any) -> str:
        """The address of a page of this site, by its name without the site's."""
        return address_of(self.admin_site.name, name, *args, **query)

    def page(
        self, request: HttpRequest, template: str, title: Any, **context: Any
    ) -> TemplateResponse:
        """A page of ours in the frame of the site."""
        request.current_app = self.admin_site.name
        opts = self.model._meta
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "subtitle": None,
            "opts": opts,
            "app_label": opts.app_label,
            "list_title": capfirst(str(opts.verbose_name_plural)),
            "list_address": self.address(f"{opts.app_label}_{opts.model_name}_changelist"),
            "media": self.media,
            **context,
        }
        return TemplateResponse(request, f"admin/django_tasks/{template}", context)

    def confirm(
        self, request: HttpRequest, title: Any, sentences: list[str], **context: Any
    ) -> HttpResponse:
        """A page that asks before something is done; its form is sent to the same address.

        ``context``: ``button`` and ``back``, and ``hidden`` fields.
        """
        return self.page(request, "confirm.html", title, sentences=sentences, **context)

    def go(self, request: HttpRequest, address: str, text: Any, level: int) -> HttpResponseRedirect:
        """Say something on the page at an address of this site, which comes next."""
        self.message_user(request, text, level)
        return HttpResponseRedirect(address)


class StrictPages(FramedPages):
    """Pages that need no inline script and no inline style, and say so to the browser."""

    class Media:
        css = {"all": ("django_tasks/admin.css",)}

    def get_urls(self) -> list[URLPattern]:
        found: list[URLPattern] = super().get_urls()
        for pattern in found:
            pattern.callback = strict(pattern.callback)
        return found

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list, under the name of what it has."""
        title = capfirst(str(self.model._meta.verbose_name_plural))
        context = {"title": title, "subtitle": None} | dict(extra_context or {})
        response: HttpResponse = super().changelist_view(request, context)
        return response

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """The log of changes; "history" is that of runs."""
        row = self.get_object(request, unquote(object_id))
        context = {
            "title": _LOG % {"row": row},
            "is_in_other_words": in_project_words(lambda: _LOG) != str(_LOG),
            **(extra_context or {}),
        }
        response: HttpResponse = super().history_view(request, object_id, context)
        return response


class SeenWithTasks(ModelAdminOfAny):
    """Pages that those see who may see tasks."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request, "view")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, "view")


class CardPages(StrictPages, OnlyShown):
    """Lists of rows that are cards on a phone."""

    class Media:
        js = ("django_tasks/cards.js",)


class OwnPages(SeenWithTasks, StrictPages, NothingToEdit):
    """Pages that are no lists of rows."""

    def views(self) -> list[tuple[str, View, str]]:
        """Route, view and name of each page; the first one is what the site's index leads to."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        (route, first, _name), *_others = views = self.views()
        # The name by which the site's index finds it.
        index = f"{self.model._meta.app_label}_{self.model._meta.model_name}_changelist"
        return [
            path(route, strict(self.admin_site.admin_view(view)), name=name)
            for route, view, name in [*views, (route, first, index)]
        ]

    def _tasks(self, **query: str) -> str:
        return self.address("django_tasks_task_changelist", **query)


def address_of(site: str, name: str, *args: Any, **query: Any) -> str:
    """The address of a page, with a query; empty if this site has no such page."""
    try:
        address = reverse(f"{site}:{name}", args=args)
    except NoReverseMatch:
        return ""
    given = {key: value for key, value in query.items() if value not in ("", None)}
    return f"{address}?{urlencode(given)}" if given else address
