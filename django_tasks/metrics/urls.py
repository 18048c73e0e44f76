"""The address of the metrics: ``path("", include("django_tasks.metrics.urls"))`` is /metrics."""

from django.urls import path

from django_tasks.metrics.views import metrics

urlpatterns = [path("metrics", metrics, name="django_tasks_metrics")]
