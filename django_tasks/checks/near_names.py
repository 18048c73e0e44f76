"""A system check of handlers: attributes that mean nothing, and look as if they did."""

from typing import Any

from django.core.checks import CheckMessage

from django_tasks.checks.messages import warning
from django_tasks.handlers.slips import slips
from django_tasks.sentences import sentence as _


def check_names(**kwargs: Any) -> list[CheckMessage]:
    """W008"""
    return [
        warning(
            "W008",
            _(
                "%(where)s has %(name)r, which means nothing to django_tasks.",
                where=where,
                name=name,
            ),
            _(
                "Did you mean %(near)r? A name of your own may begin with an underscore.",
                near=meant,
            ),
        )
        for where, name, meant in slips()
    ]
