"""Filters that put times, spans and figures into words, for our own templates."""

from collections.abc import Iterable
from datetime import datetime

from django import template
from django.utils.translation import gettext

from django_tasks.reads import words
from django_tasks.values.figures import Histogram

register = template.Library()


@register.filter
def moment(value: datetime | None, now: datetime | None = None) -> str:
    """A time to the second with its zone; without its date if that is the date of ``now``."""
    if value is None:
        return "-"
    return words.at(value, now) if now else words.stamp(value)


@register.filter
def ago(value: datetime | None, now: datetime) -> str:
    """The distance from now."""
    if value is None:
        return "-"
    seconds = (now - value).total_seconds()
    if seconds < 0:
        return gettext("in %(time)s") % {"time": words.span(-seconds)}
    return gettext("%(time)s ago") % {"time": words.span(seconds)}


@register.filter
def span(value: float | None) -> str:
    """A number of seconds."""
    return "-" if value is None else words.span(value)


@register.filter
def number(value: int) -> str:
    """A whole number in groups of digits."""
    return str(words.Amount(value))


@register.filter
def quantile(value: Histogram, part: str) -> str:
    """A quantile of a histogram."""
    return span(value.quantile(float(part)))


@register.filter
def listed(value: Iterable[str]) -> str:
    """Words in a row."""
    return words.listed(value)


@register.filter
def class_name(path: str) -> str:
    """The name of a class without its module."""
    return words.class_name(path)
