import os
from importlib import import_module

from django.apps import AppConfig


class EffectsConfig(AppConfig):
    name = "tests.faults.effects"
    label = "effects"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Inside, because these need the models.
        from tests.faults import watching

        # What was broken on purpose is then watched like everything else.
        if name := os.environ.get("FAULTS_BROKEN"):
            import_module("tests.faults.broken").break_guard(name)
        watching.install()
