"""The guard against the PyPI distribution ``django-tasks``, which has the same import name.

pip mixes the two packages in one folder without a word. Whichever came last owns
``__init__``, ``apps``, ``signals`` and ``exceptions``; this file exists only in ours, so it can
tell. It imports nothing of ours but another such file, for the same reason.
"""

from importlib import metadata

from django.core.exceptions import ImproperlyConfigured

import django_tasks
from django_tasks.sentences import sentence as _

DISTRIBUTION = "django-delayed-tasks"
CHECK_ID = "django_tasks.E001"
CURE = _(
    "Run “pip uninstall -y django-tasks”, and then install %(distribution)s again from where you "
    "have it: “pip install --force-reinstall --no-deps ../%(distribution)s”, for instance.",
    distribution=DISTRIBUTION,
)


def strangers() -> list[str]:
    """Names of other installed distributions that have put files into this package."""
    names = {each.metadata["Name"] for each in metadata.distributions() if _owns_files(each)}
    return sorted(name for name in names if name.lower() != DISTRIBUTION)


def _owns_files(distribution: metadata.Distribution) -> bool:
    """Reads the lists of a distribution as they are: every command asks each that is installed.

    ``metadata.packages_distributions`` makes objects of all their lines, ten times as slowly.
    """
    if packages := (distribution.read_text("top_level.txt") or "").split():
        return "django_tasks" in packages
    files = distribution.read_text("RECORD") or ""
    return files.startswith("django_tasks/") or "\ndjango_tasks/" in files


def clash() -> str | None:
    """One sentence that names the clash, or None when this installation is whole."""
    if getattr(django_tasks, "__distribution__", None) != DISTRIBUTION:
        return _(
            "The package 'django_tasks' of %(distribution)s has been overwritten by "
            "the PyPI distribution 'django-tasks', which has the same import name.",
            distribution=DISTRIBUTION,
        )
    if names := strangers():
        return _(
            "The package 'django_tasks' is shared by %(distribution)s and %(names)s; "
            "only one of them can be installed.",
            distribution=DISTRIBUTION,
            names=", ".join(names),
        )
    return None


def require_own_package() -> None:
    """Raise ImproperlyConfigured when another distribution has overwritten this package."""
    if getattr(django_tasks, "__distribution__", None) != DISTRIBUTION:
        raise ImproperlyConfigured(
            _("(%(check_id)s) %(clash)s %(cure)s", check_id=CHECK_ID, clash=clash(), cure=CURE)
        )
