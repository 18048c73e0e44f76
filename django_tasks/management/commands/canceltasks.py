"""``manage.py canceltasks``: cancel all tasks that match filters."""

from django.utils.translation import ngettext_lazy

from django_tasks.client.changes import Step
from django_tasks.management.bulk import BulkCommand
from django_tasks.sentences import sentence as _


class Command(BulkCommand):
    help = _(
        "Cancel all tasks that match: what waits is gone, what runs is gone when "
        "its run ends. In batches; a task that does not match any more when its "
        "turn comes is left alone."
    )
    step = Step.CANCEL
    would = ngettext_lazy(
        "%(count)s task would be cancelled (%(words)s).",
        "%(count)s tasks would be cancelled (%(words)s).",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s task was cancelled (%(words)s).",
        "%(count)s tasks were cancelled (%(words)s).",
        "number",
    )
    asks = _("Cancel them?")
