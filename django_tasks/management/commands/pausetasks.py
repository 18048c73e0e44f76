"""``manage.py pausetasks``: pause a code, a queue, everything, or tasks one by one."""

from django.utils.translation import ngettext_lazy

from django_tasks import api
from django_tasks.client.changes import Step
from django_tasks.management.base import person
from django_tasks.management.bulk import PauseCommand
from django_tasks.sentences import sentence as _


class Command(PauseCommand):
    help = _(
        "Pause a code, a queue, or both (--code, --queue and nothing else), or "
        "everything (--all): no such task starts until resumetasks, whenever it "
        "was added. With other filters, or with --each, the tasks that match now "
        "are paused one by one. What runs goes on."
    )
    step = Step.PAUSE
    would = ngettext_lazy(
        "%(count)s task would be paused (%(words)s).",
        "%(count)s tasks would be paused (%(words)s).",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s task was paused (%(words)s).",
        "%(count)s tasks were paused (%(words)s).",
        "number",
    )
    asks = _("Pause them?")
    would_whole = _("%(scope)s would be paused.")
    done_whole = _("%(scope)s is paused: none of its tasks starts until it is resumed.")
    nothing_whole = _("%(scope)s was paused already.")

    def whole(self, code: str, queue: str) -> bool:
        return api.pause_tasks(biz_code=code, queue=queue, by=person(), using=self.using)
