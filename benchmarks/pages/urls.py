"""The admin, and the metrics: with a connection for each scrape, and with one that is kept."""

from django.contrib import admin
from django.urls import include, path

from django_tasks.metrics.views import metrics

urlpatterns = [
    path("", include("django_tasks.metrics.urls")),
    path("metrics/kept", metrics, {"keep_connections": True}, name="metrics_kept"),
    path("admin/", admin.site.urls),
]
