"""Settings: one typed home, one default, one sentence when one cannot be used."""

from datetime import timedelta
from json import JSONDecoder

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.serializers.json import DjangoJSONEncoder

from django_tasks import conf
from django_tasks.exceptions import TaskException

DEFAULTS = {
    "POLL_INTERVAL": 1.0,
    "LEASE": 30.0,
    "BATCH_SIZE": 500,
    "THREADS": 8,
    "PROCESSES": None,
    "MAX_ATTEMPTS": 5,
    "SHUTDOWN_TIMEOUT": 30.0,
    "PAYLOAD_LIMIT": 1_000_000,
    "HISTORY": "problems",
    "HISTORY_AGE": 30 * 86_400.0,
    "FAILED_AGE": None,
    "DOORBELL": "127.0.0.1",
    "WORKER_NAME": "",
    "STRICT_CODES": "warn",
    "RELEASE": "",
    "METRICS_TOKEN": "",
    "PAYLOAD_ENCODER": DjangoJSONEncoder,
    "PAYLOAD_DECODER": JSONDecoder,
}
NUMBERS = [name for name, value in DEFAULTS.items() if not isinstance(value, (str, type))]


@pytest.fixture
def wishes(settings):
    def set_(**values):
        settings.DJANGO_TASKS = values

    set_()
    return set_


def in_force():
    found = conf.options()
    return {name: getattr(found, name.lower()) for name in conf.names()}


def test_without_settings_the_documented_defaults_are_in_force(wishes):
    assert in_force() == DEFAULTS


def test_the_setting_itself_may_be_missing(settings):
    del settings.DJANGO_TASKS
    conf.options.cache_clear()

    assert in_force() == DEFAULTS
    assert conf.unknown_names() == []


@pytest.mark.parametrize("address", ["", "10.0.0.5", "::1"])
def test_the_doorbell_is_an_address_of_this_host_or_nothing(wishes, address):
    wishes(DOORBELL=address)

    assert in_force()["DOORBELL"] == address


@pytest.mark.parametrize("name", NUMBERS)
def test_every_setting_can_be_set_and_changes_no_other(wishes, name):
    value = 2.5 if isinstance(DEFAULTS[name], float) else 2

    wishes(**{name: value})

    assert in_force() == DEFAULTS | {name: value}


@pytest.mark.parametrize("name", ["POLL_INTERVAL", "LEASE", "SHUTDOWN_TIMEOUT"])
@pytest.mark.parametrize("value", [90, 90.0, timedelta(minutes=1.5)])
def test_durations_are_timedeltas_or_seconds(wishes, name, value):
    wishes(**{name: value})

    assert in_force()[name] == 90.0


BAD = [
    ("DOORBELL", "example.com"),
    ("DOORBELL", 5),
    ("DOORBELL", None),
    ("HISTORY", "some"),
    ("HISTORY", None),
    ("HISTORY", ["all"]),
    ("WORKER_NAME", "a:b"),
    ("WORKER_NAME", "a b"),
    ("WORKER_NAME", 5),
    ("STRICT_CODES", True),
    ("STRICT_CODES", None),
    ("PAYLOAD_ENCODER", JSONDecoder),
    ("PAYLOAD_ENCODER", "nowhere.Encoder"),
    ("PAYLOAD_DECODER", JSONDecoder()),
    ("PAYLOAD_DECODER", None),
    *[(name, "5") for name in NUMBERS],
    *[(name, None) for name in NUMBERS],
    *[(name, True) for name in NUMBERS],
    *[(name, -1) for name in NUMBERS],
    *[(name, 10**9) for name in NUMBERS],
    *[(name, float("nan")) for name in NUMBERS],
    *[
        (name, 2.5)
        for name in NUMBERS
        if not isinstance(DEFAULTS[name], float) and name != "FAILED_AGE"
    ],
    *[(name, 0) for name in NUMBERS if name != "SHUTDOWN_TIMEOUT"],
    ("BATCH_SIZE", 1001),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=str)
def test_a_value_that_cannot_be_used_is_named_with_what_is_wrong(wishes, name, value):
    wishes(**{name: value})

    with pytest.raises(conf.ConfigurationError) as caught:
        conf.options()

    assert isinstance(caught.value, TaskException)
    assert isinstance(caught.value, ImproperlyConfigured)
    assert f"DJANGO_TASKS['{name}'] must be" in str(caught.value)
    assert repr(value) in str(caught.value)
    assert [found for found, _ in conf.problems()] == [name]


@pytest.mark.parametrize("token", [5, None, "short", "with blanks between them", "日本" * 10])
def test_a_token_that_cannot_be_used_is_not_told(wishes, token):
    wishes(METRICS_TOKEN=token)

    with pytest.raises(conf.ConfigurationError) as caught:
        conf.options()

    assert "DJANGO_TASKS['METRICS_TOKEN'] must be" in str(caught.value)
    assert repr(token) not in str(caught.value)


def test_a_token_is_not_part_of_what_the_options_show(wishes):
    wishes(METRICS_TOKEN="a-token-of-characters")

    assert conf.options().metrics_token == "a-token-of-characters"
    assert "a-token" not in repr(conf.options())


def test_every_problem_is_listed(wishes):
    wishes(LEASE="x", THREADS=0, BATCH_SIZE=5)

    assert {name for name, _ in conf.problems()} == {"LEASE", "THREADS"}


def test_names_that_mean_nothing_are_listed_and_harm_nothing(wishes):
    wishes(THREADS=3, THREAD=4, lease=5)

    assert conf.unknown_names() == ["THREAD", "lease"]
    assert in_force() == DEFAULTS | {"THREADS": 3}


@pytest.mark.parametrize("value", [None, [], "x", 5, [("THREADS", 3)]])
def test_settings_that_are_no_dict_are_refused(settings, value):
    settings.DJANGO_TASKS = value

    for look in (conf.options, conf.unknown_names, lambda: list(conf.problems())):
        with pytest.raises(conf.ConfigurationError, match="DJANGO_TASKS must be a dict"):
            look()


def test_a_change_of_the_settings_is_seen(settings):
    settings.DJANGO_TASKS = {"THREADS": 3}
    assert conf.options().threads == 3
    settings.DJANGO_TASKS = {"THREADS": 4}
    assert conf.options().threads == 4


@pytest.mark.parametrize("value", [["a.b"], ("a.b",)])
def test_handlers_are_a_list_of_paths(settings, value):
    settings.TASK_HANDLERS = value

    assert conf.handler_paths() == ["a.b"]


def test_no_handlers_are_an_empty_list(settings):
    del settings.TASK_HANDLERS

    assert conf.handler_paths() == []


@pytest.mark.parametrize("value", ["a.b", None, {"a.b"}, 5])
def test_handlers_that_are_no_list_are_refused(settings, value):
    settings.TASK_HANDLERS = value

    with pytest.raises(conf.ConfigurationError, match="TASK_HANDLERS must be a list"):
        conf.handler_paths()


def test_the_options_cannot_be_changed(wishes):
    with pytest.raises(AttributeError):
        conf.options().threads = 5  # type: ignore[misc]
