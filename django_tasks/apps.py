from django.apps import AppConfig
from django.db.models.signals import pre_migrate
from django.utils.translation import gettext_lazy as _


class DjangoTasksConfig(AppConfig):
    name = "django_tasks"
    label = "django_tasks"
    verbose_name = _("Delayed tasks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Inside, because these need the models.
        import django

        from django_tasks import checks, logs
        from django_tasks.handlers import registry
        from django_tasks.handover import checks as handing_checks
        from django_tasks.importers.gate import refuse_forerunner, remind_of_rows

        checks.register()
        handing_checks.register()
        logs.connect()
        registry.load()
        if django.VERSION >= (6, 0):
            from django_tasks.functions import connect

            connect()
        for receiver in (refuse_forerunner, remind_of_rows):
            pre_migrate.connect(receiver, sender=self)
