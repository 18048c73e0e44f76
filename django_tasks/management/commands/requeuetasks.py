"""``manage.py requeuetasks``: give what has FAILED a fresh start."""

from django.utils.translation import ngettext_lazy

from django_tasks.client.changes import Step
from django_tasks.management.bulk import BulkCommand
from django_tasks.sentences import sentence as _


class Command(BulkCommand):
    help = _(
        "Give FAILED tasks that match a fresh start, due now, with all their "
        "attempts. In batches; a task that does not match any more when its turn "
        "comes is left alone."
    )
    step = Step.REQUEUE
    would = ngettext_lazy(
        "%(count)s task would be requeued (%(words)s).",
        "%(count)s tasks would be requeued (%(words)s).",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s task was requeued (%(words)s).",
        "%(count)s tasks were requeued (%(words)s).",
        "number",
    )
    asks = _("Requeue them?")
