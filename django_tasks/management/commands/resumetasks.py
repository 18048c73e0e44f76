"""``manage.py resumetasks``: resume a code, a queue, everything, or tasks one by one."""

from django.utils.translation import ngettext_lazy

from django_tasks import api
from django_tasks.client.changes import Step
from django_tasks.management.bulk import PauseCommand
from django_tasks.sentences import sentence as _


class Command(PauseCommand):
    help = _(
        "Undo pausetasks: of a code, a queue, or both (--code, --queue and "
        "nothing else), of everything (--all), or with other filters, or with "
        "--each, of the tasks that match."
    )
    step = Step.RESUME
    would = ngettext_lazy(
        "%(count)s task would be resumed (%(words)s).",
        "%(count)s tasks would be resumed (%(words)s).",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s task was resumed (%(words)s).",
        "%(count)s tasks were resumed (%(words)s).",
        "number",
    )
    asks = _("Resume them?")
    would_whole = _("%(scope)s would be resumed.")
    done_whole = _("%(scope)s is resumed.")
    nothing_whole = _("%(scope)s was not paused as a whole.")

    def whole(self, code: str, queue: str) -> bool:
        return api.resume_tasks(biz_code=code, queue=queue, using=self.using)
