import os
from importlib import import_module

from django.apps import AppConfig


class EffectsConfig(AppConfig):
    name = "tests.faults.effects"
    label = "effects"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Inside, because these need the models.
        from django_tasks.worker import pruner
        from tests.faults import slowness, watching

        # What was broken on purpose is then watched like everything else.
        if name := os.environ.get("FAULTS_BROKEN"):
            import_module("tests.faults.broken").break_guard(name)
        watching.install()
        # Minutes, and few scenarios take so long. One that is renamed must not be missed.
        assert (pruner.INTERVAL, pruner.WORKERS_INTERVAL) == (600, 120)
        pruner.INTERVAL = pruner.WORKERS_INTERVAL = 1.0
        slowness.install()
