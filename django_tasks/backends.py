"""No module of this package: the backends of the backport ``django-tasks`` have this name.

A project that comes from it still names them in TASKS; Django shows the sentence below.
"""

from django_tasks.sentences import sentence as _

raise ImportError(
    _(
        "this package is django-delayed-tasks, not the backport django-tasks; its backend is"
        " django_tasks.backend.DatabaseBackend"
    )
)
