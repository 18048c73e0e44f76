"""The project's wishes: every setting has one typed home, one default and one test, here.

``settings.DJANGO_TASKS`` is a dict of the upper-case names below; ``settings.TASK_HANDLERS`` is a
list of dotted paths. Nothing is read at import, and ``override_settings`` works.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from ipaddress import ip_address
from json import JSONDecoder, JSONEncoder
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.serializers.json import DjangoJSONEncoder
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_tasks.exceptions import TaskException, TaskTypeError, TaskValueError, shortened
from django_tasks.sentences import CONTROLS
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import seconds_between, whole_number
from django_tasks.values.releases import release_name
from django_tasks.values.runs import KINDS

Number = TypeVar("Number", int, float)

STRICTNESS = ("off", "warn", "raise")
LONGEST_HOST = 100
# Of a token, so that nobody finds it by trying.
SHORTEST_TOKEN = 16
# Names of settings whose values are told to nobody.
SECRET = frozenset({"METRICS_TOKEN"})


class ConfigurationError(TaskException, ImproperlyConfigured):
    """A setting that this package cannot work with."""


def _whole(least: int, most: int) -> Callable[[Any], int]:
    return _without_field(lambda value: whole_number("", value, least, most))


def _duration(least: float, most: float) -> Callable[[Any], float]:
    return _without_field(lambda value: seconds_between("", value, least, most))


def _without_field(check: Callable[[Any], Number]) -> Callable[[Any], Number]:
    """``check`` with bare errors: a setting, a flag and an attribute have names of their own."""

    def convert(value: Any) -> Number:
        try:
            return check(value)
        except TaskTypeError as error:
            raise TypeError(error.problem) from None
        except TaskValueError as error:
            raise ValueError(error.problem) from None

    return convert


def _history(value: Any) -> str:
    if value not in KINDS:
        raise ValueError(
            _(
                "must be %(others)s or %(last)r",
                others=", ".join(map(repr, KINDS[:-1])),
                last=KINDS[-1],
            )
        )
    return str(value)


def _address(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(_("must be a text"))
    if value:
        try:
            ip_address(value)
        except ValueError:
            raise ValueError(_("must be an IP address of this host, or empty")) from None
    return value


def _host(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(_("must be a text"))
    if len(value) > LONGEST_HOST or ":" in value or " " in value or CONTROLS.search(value):
        raise ValueError(
            _(
                "must be up to %(longest_host)s characters, without colons, blanks and control "
                "characters",
                longest_host=LONGEST_HOST,
            )
        )
    return value


def _token(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(_("must be a text"))
    is_plain = value.isascii() and value.isprintable() and " " not in value
    if value and not (is_plain and len(value) >= SHORTEST_TOKEN):
        raise ValueError(
            _(
                "must be %(number)s or more ASCII characters, without blanks, or empty",
                number=SHORTEST_TOKEN,
            )
        )
    return value


def _strictness(value: Any) -> str:
    if value not in STRICTNESS:
        raise ValueError(_("must be 'off', 'warn' or 'raise'"))
    return str(value)


def _class_of(base: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        found, wanted = (
            value,
            _("must be a subclass of json.%(name)s or the path of one", name=base.__name__),
        )
        if isinstance(value, str):
            try:
                found = import_string(value)
            except ImportError as error:
                raise ValueError(_("%(wanted)s (%(error)s)", wanted=wanted, error=error)) from None
        if not (isinstance(found, type) and issubclass(found, base)):
            raise TypeError(wanted)
        return found

    return convert


def _option(default: Any, convert: Callable[[Any], Any]) -> Any:
    return field(default=default, metadata={"convert": convert})


@dataclass(frozen=True, slots=True)
class Options:
    """``settings.DJANGO_TASKS``, converted. Durations are seconds.

    ``poll_interval``  the longest sleep of an idle worker
    ``lease``          how long a worker is believed alive after a heartbeat
    ``batch_size``     the most tasks that one statement claims or finishes
    ``threads``        handlers that run at once in one process
    ``processes``      processes of one ``starttask``; None: what fits the databases and the host
    ``max_attempts``   failed runs before a task is FAILED, unless its handler says otherwise
    ``shutdown_timeout``  how long a stopping worker waits for running handlers
    ``payload_limit``  the largest ``biz_ext``, in bytes of JSON
    ``history``        which runs leave a line in the history: "all", "problems", "none"
    ``history_age``    how long the history keeps a line
    ``failed_age``     how long a FAILED task stays; None: until somebody requeues or cancels it
    ``doorbell``       the address of this host at which workers can be woken; empty: nowhere
    ``worker_name``    this host, in the names of its workers and holders of locks; empty: its own
    ``strict_codes``   what an add does for a code that no handler of this project has: "warn" (in
                       the log, once), "raise" or "off"
    ``release``        a number or a text that grows with each release; empty: the newest is that
                       which started last
    ``metrics_token``  the bearer token with which Prometheus sees the metrics; empty: none does
    ``payload_encoder``  the JSONEncoder, or its dotted path, that writes ``biz_ext``
    ``payload_decoder``  the JSONDecoder, or its dotted path, that reads it
    """

    poll_interval: float = _option(1.0, _duration(0.01, 3600))
    lease: float = _option(30.0, _duration(1, 86_400))
    batch_size: int = _option(500, _whole(1, 1000))
    threads: int = _option(8, _whole(1, 1000))
    processes: int | None = _option(None, _whole(1, 256))
    max_attempts: int = _option(5, _whole(1, 10_000))
    shutdown_timeout: float = _option(30.0, _duration(0, 86_400))
    payload_limit: int = _option(1_000_000, _whole(1, 100_000_000))
    history: str = _option("problems", _history)
    history_age: float = _option(30 * 86_400.0, _duration(1, 30 * 365 * 86_400))
    failed_age: float | None = _option(None, _duration(1, 30 * 365 * 86_400))
    doorbell: str = _option("127.0.0.1", _address)
    worker_name: str = _option("", _host)
    strict_codes: str = _option("warn", _strictness)
    release: str = _option("", release_name)
    metrics_token: str = field(default="", repr=False, metadata={"convert": _token})
    payload_encoder: type[JSONEncoder] = field(
        default=DjangoJSONEncoder, metadata={"convert": _class_of(JSONEncoder)}
    )
    payload_decoder: type[JSONDecoder] = field(
        default=JSONDecoder, metadata={"convert": _class_of(JSONDecoder)}
    )


def host_name() -> str:
    """The name of this host, as workers and holders of locks show it."""
    return options().worker_name or socket.gethostname()


def names() -> list[str]:
    """Every key that ``settings.DJANGO_TASKS`` may have."""
    return [option.name.upper() for option in fields(Options)]


def convert(name: str, value: Any) -> Any:
    """``value`` as the option ``name`` (upper case) wants it; TypeError or ValueError if not."""
    return _converters()[name](value)


@cache
def options() -> Options:
    """The options in force. Raises ConfigurationError for the first bad one."""
    wishes = _wishes()
    for name, problem in problems():
        raise ConfigurationError(
            _("DJANGO_TASKS[%(name)r] %(problem)s", name=name, problem=problem)
        )
    known = {name.lower(): convert(name, wishes[name]) for name in names() if name in wishes}
    return Options(**known)


def problems() -> Iterator[tuple[str, str]]:
    """(name, sentence) for each value in ``settings.DJANGO_TASKS`` that cannot be used."""
    wishes = _wishes()
    for name in names():
        if name in wishes:
            try:
                convert(name, wishes[name])
            except (TypeError, ValueError) as error:
                if name in SECRET:
                    yield name, _("%(error)s.", error=error)
                else:
                    shown = shortened(wishes[name])
                    yield name, _("%(error)s, not %(value)s.", error=error, value=shown)


def unknown_names() -> list[str]:
    """Keys of ``settings.DJANGO_TASKS`` that mean nothing."""
    return sorted(str(name) for name in _wishes() if name not in names())


def handler_paths() -> list[Any]:
    """``settings.TASK_HANDLERS``: dotted paths of handlers."""
    paths = getattr(settings, "TASK_HANDLERS", ())
    if not isinstance(paths, (list, tuple)):
        raise ConfigurationError(
            _("TASK_HANDLERS must be a list of dotted paths, not %(paths)s", paths=shortened(paths))
        )
    return list(paths)


def _wishes() -> Mapping[str, Any]:
    wishes = getattr(settings, "DJANGO_TASKS", {})
    if not isinstance(wishes, Mapping):
        raise ConfigurationError(
            _("DJANGO_TASKS must be a dict, not %(wishes)s", wishes=shortened(wishes))
        )
    return wishes


@cache
def _converters() -> dict[str, Callable[[Any], Any]]:
    return {option.name.upper(): option.metadata["convert"] for option in fields(Options)}


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_TASKS":
        options.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_tasks.conf")
