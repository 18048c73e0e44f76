"""The setup of neighbours that need a Django project."""

import os


def set_up(url: str, app: str) -> None:
    """Make this process, and those it starts, part of the project; make the tables."""
    os.environ |= {
        "DATABASE_URL": url,
        "BENCHMARK_NEIGHBOUR": app,
        "DJANGO_SETTINGS_MODULE": "benchmarks.contenders.django_project",
    }
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
