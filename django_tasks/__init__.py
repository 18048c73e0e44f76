"""Persistent delayed tasks for Django: the project's own database is the timer.

Nothing here needs models, so that a settings file may import it. The public face is
``django_tasks.api``.
"""

from typing import Any

__distribution__ = "django-delayed-tasks"
__version__ = "0.1.0"

# What the PyPI distribution "django-tasks" (the backport of Django 6's task framework) offers
# under this very import name. Code written for it must hear why its import fails.
_BACKPORT_NAMES = frozenset(
    {
        "DEFAULT_TASK_BACKEND_ALIAS",
        "DEFAULT_TASK_QUEUE_NAME",
        "ResultStatus",
        "Task",
        "TaskContext",
        "TaskResult",
        "TaskResultStatus",
        "default_task_backend",
        "task",
        "task_backends",
    }
)


def __getattr__(name: str) -> Any:
    # ImportError and not AttributeError: "from django_tasks import task" would swallow the text.
    if name in _BACKPORT_NAMES:
        from django_tasks.sentences import sentence as _

        raise ImportError(
            _(
                "cannot import %(name)r from 'django_tasks': this package is %(distribution)s"
                " (persistent delayed tasks), not the PyPI distribution 'django-tasks' (the"
                " backport of Django 6's tasks framework). Both use the import name 'django_tasks'"
                " and cannot share an environment. See the README, 'The name'.",
                name=name,
                distribution=__distribution__,
            )
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
