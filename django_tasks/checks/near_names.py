"""A system check of handlers: attributes that mean nothing, and look as if they did."""

from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004

from django_tasks.handlers.slips import slips
from django_tasks.sentences import sentence as _


def check_names(**kwargs: Any) -> list[CheckMessage]:
    """W008"""
    return [
        Warning(
            _(
                "%(where)s has %(name)r, which means nothing to django_tasks.",
                where=slip.where,
                name=slip.name,
            ),
            hint=_(
                "Did you mean %(near)r? A name of your own may begin with an underscore.",
                near=slip.meant,
            ),
            id="django_tasks.W008",
        )
        for slip in slips()
    ]
