"""The state of the tasks for Prometheus: a collector that asks the database when it is asked.

Needs prometheus-client: ``pip install 'django-delayed-tasks[prometheus]'``. Import it where models
may be imported.
"""

from django_tasks.conf import ConfigurationError
from django_tasks.sentences import sentence as _

try:
    import prometheus_client  # noqa: F401
except ImportError:
    raise ConfigurationError(
        _(
            "%(module)s needs %(package)s: pip install 'django-delayed-tasks[%(extra)s]'",
            module=__name__,
            package="prometheus-client",
            extra="prometheus",
        )
    ) from None

from django_tasks.metrics.collector import TaskCollector
from django_tasks.metrics.page import MetricsPage, metrics_page

__all__ = ["MetricsPage", "TaskCollector", "metrics_page"]
