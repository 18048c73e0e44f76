"""The site's only page, which asks the database."""

import os

from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_tasks.models import Task


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{os.getpid()} sees {Task.objects.count()} tasks")


urlpatterns = [path("", page)]
