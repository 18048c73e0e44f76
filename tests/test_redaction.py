"""Passwords and secrets of the project do not survive in an error's text."""

import json
import logging
import re
from collections.abc import Iterator
from time import process_time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from django.conf import settings
from django.utils.functional import SimpleLazyObject
from django.views.debug import get_default_exception_reporter_filter
from hypothesis import given
from hypothesis import strategies as st

from django_tasks import logs, redaction
from django_tasks.handlers import registry
from django_tasks.redaction import ANYWHERE, MASK, SHORTEST, masked, without_secrets
from tests.factories import a_claim_of

PASSWORDS = [
    "s3cret",
    "p@ss@word",
    "with:colon",
    "with/slash",
    "#?&%=+",
    "p%40ss",
    "it's",
    "Ünï©ode😀",
    "(brackets]",
    "back\\slash",
    "a",
    ":/x",
]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("user", ["app", "", "app%40corp", "app.user-1"])
@pytest.mark.parametrize("scheme", ["postgres", "mysql+pymysql", "redis", "amqps", "https"])
def test_the_password_of_a_url_is_masked(scheme: str, user: str, password: str) -> None:
    text = masked(f"cannot reach {scheme}://{user}:{password}@db.example:5432/shop?timeout=3 now")
    assert text == f"cannot reach {scheme}://{user}:{MASK}@db.example:5432/shop?timeout=3 now"


def test_every_url_of_a_text_is_masked() -> None:
    text = masked("from amqp://a:one@x,amqp://b:two@y\nto ['redis://:three@z/0'] \"s3://k:four@w\"")
    assert text == (
        f"from amqp://a:{MASK}@x,amqp://b:{MASK}@y\nto ['redis://:{MASK}@z/0'] \"s3://k:{MASK}@w\""
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("host=db password=s3cret dbname=shop", f"host=db password={MASK} dbname=shop"),
        ("Server=db;Pwd=s3;c,ret", f"Server=db;Pwd={MASK}"),
        ("PGPASSWORD=s3cret psql", f"PGPASSWORD={MASK} psql"),
        ("passwd = 's3 cret', user", f"passwd = '{MASK}', user"),
        ("?token=s3cret&page=2", f"?token={MASK}&page=2"),
        ("?api_key=s3cret&apikey=s&api-key=c", f"?api_key={MASK}&apikey={MASK}&api-key={MASK}"),
        ("client_secret=s3cret", f"client_secret={MASK}"),
        ("AWS_SECRET_ACCESS_KEY=s3cret", f"AWS_SECRET_ACCESS_KEY={MASK}"),
        ("{'PASSWORD': 's3 cret', 'PORT': 1}", f"{{'PASSWORD': '{MASK}', 'PORT': 1}}"),
        ("{'PASSWORD': \"s3'cret\"}", f"{{'PASSWORD': \"{MASK}\"}}"),
        (r"{'password': 's3\'cre\\t', 'a': 1}", f"{{'password': '{MASK}', 'a': 1}}"),
        ('{"password":"s3cret","a":1}', f'{{"password":"{MASK}","a":1}}'),
        (r'"{\"token\": \"s3 cret\"}"', rf'"{{\"token\": {MASK}}}"'),
        ("environ['DB_PASSWORD'] = 's3cret'", f"environ['DB_PASSWORD'] = '{MASK}'"),
        ("Config(secret=b's3cret', x=1)", f"Config(secret={MASK}, x=1)"),
        ("tokens=['s3', 'cret'], x", f"tokens={MASK}, x"),
        ("'secret_key' => 's3cret'", f"'secret_key' => '{MASK}'"),
        ("login failed, password: s3cret", f"login failed, password: {MASK}"),
        ("X-Api-Key: s3cret", f"X-Api-Key: {MASK}"),
        ("{'Authorization': 'Bearer s3.cret'}", f"{{'Authorization': '{MASK}'}}"),
        ("Authorization: Basic czNjcmV0", f"Authorization: {MASK}"),
        ("password='s3 cret, and never clo", f"password='{MASK}'"),
        ("password=\ns3cret is another line", "password=\ns3cret is another line"),
    ],
)
def test_what_stands_behind_the_name_of_a_secret_is_masked(text: str, left: str) -> None:
    assert masked(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Access denied for user 'app'@'db' (using password: YES)",
        'password authentication failed for user "app"',
        "fe_sendauth: no password supplied",
        "jwt.exceptions.InvalidToken: Signature verification failed",
        "KeyError: 'password'",
        "Missing fields: ['password', 'email']",
        "if token == other: raise ValueError(token)",
        "login(user=None, password=None, token=null)",
        "see https://docs.example:8000/tasks and mail to ops@example.org",
        "http://[::1]:8000/",
        "std::unique_ptr<Token>::get",
        "12:30:15 key=42 order=17",
    ],
)
def test_a_text_that_betrays_nothing_is_left_as_it_is(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "login with hunter2xyz_4711 refused",
        "bothunter2xyz_4711/send",
        "a://hunter2xyz_4711/path",
        "hunter2xyz_4711" * 3,
    ],
)
def test_a_secret_is_masked_wherever_it_stands(text: str) -> None:
    assert masked(text, ["hunter2xyz_4711"]) == text.replace("hunter2xyz_4711", MASK)


@pytest.mark.parametrize("secret", ["""q"u'o\\te/d &\n<é😀>""", "-----BEGIN KEY-----\nMIIE\n"])
def test_a_secret_is_masked_in_all_the_ways_it_may_be_written(secret: str) -> None:
    forms = [secret, repr(secret), repr([secret]), json.dumps(secret), quote_plus(secret)]
    forms += [json.dumps({"x": secret}, ensure_ascii=False), quote(secret, safe="")]
    for form in forms:
        assert masked(f"see {form}", [secret]).count(MASK) == 1
        assert len(masked(f"see {form}", [secret])) < len("see {'x': ''}") + len(MASK) + 2


def test_a_short_secret_is_masked_as_a_whole_word_only() -> None:
    text = masked("role postgres of django.db.backends.postgresql: (postgres)", ["postgres"])
    assert text == f"role {MASK} of django.db.backends.postgresql: ({MASK})"
    assert masked("x!secret!x", ["!secret!"]) == f"x{MASK}x"


@pytest.mark.parametrize("secret", ["", "a", "no", "tasks", " " * 40, "\n"])
def test_a_secret_that_would_ruin_every_text_is_not_looked_for(secret: str) -> None:
    text = "a task of django_tasks said no:\n" + " " * 50 + "a tasks no"
    assert masked(text, [secret]) == text


def test_of_two_secrets_that_begin_alike_the_longer_one_is_masked_whole() -> None:
    short, long = "abcdefghijklm", "abcdefghijklmnopq"
    assert masked(f"{long} {short}", [short, long]) == f"{MASK} {MASK}"


@given(
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=ANYWHERE),
    st.text(max_size=30),
    st.text(max_size=30),
)
def test_no_long_secret_survives_in_any_text(secret: str, before: str, after: str) -> None:
    left = masked(f"{before}{secret}{after}", [secret])
    assert secret not in left or secret in MASK * 3


HARD = [
    "a",
    "://",
    "://a:",
    "://a:@",
    "://u:p",
    ":",
    "@",
    "password",
    "token-",
    "api_key_",
    "token=",
    "token='",
    "token='\\",
    "password=\\'",
    'password: "',
    "secret\\\\\\",
    "token \t ",
    "token=[",
    "authorization: bearer ",
    "'",
    "\\",
    " ",
    "\n",
]


@pytest.mark.parametrize("piece", HARD)
@pytest.mark.parametrize("start", ["", "token='"])
def test_a_megabyte_made_to_be_slow_takes_no_longer_than_its_length(piece: str, start: str) -> None:
    """Time by the processor, so that a busy machine tells the same; squares would take hours."""
    text = start + piece * (1_000_000 // len(piece))
    began = process_time()
    masked(text, ["hunter2xyz_4711", "aaaaaa", "a" * 30 + "b"])
    assert process_time() - began < 20


# The settings


@pytest.fixture(autouse=True)
def new_secrets() -> Iterator[None]:
    yield
    redaction._secrets.cache_clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECRET_KEY", "hunter2xyz"),
        ("SECRET_KEY_FALLBACKS", ["other", "hunter2xyz"]),
        ("FTP_HOST_PASSWORD", "hunter2xyz"),
        ("STRIPE_API_KEY", b"hunter2xyz"),
        ("PAYMENT", {"hosts": [{"token": "hunter2xyz"}]}),
        ("SERVICE_AUTH", ("robot", {"phrase": "hunter2xyz"})),
    ],
)
def test_settings_that_django_hides_are_masked(name: str, value: object, settings: Any) -> None:
    setattr(settings, name, value)
    assert without_secrets("refused hunter2xyz here") == f"refused {MASK} here"


def wrapped_settings() -> Any:
    """The settings themselves, behind the object that loads them."""
    lazy: Any = settings
    return lazy._wrapped


def test_the_passwords_of_all_databases_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    databases = {
        "default": {"PASSWORD": "hunter2xyz", "USER": "customer"},
        "other": {"PASSWORD": "correct-horse", "OPTIONS": {"sslpassword": "battery"}},
        "none": {"PASSWORD": None},
        "empty": {"PASSWORD": ""},
    }
    monkeypatch.setattr(wrapped_settings(), "DATABASES", databases)
    redaction._secrets.cache_clear()
    text = without_secrets("customer hunter2xyz correct-horse battery")
    assert text == f"customer {MASK} {MASK} {MASK}"


def test_reading_the_settings_warns_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django 6.1 warns of EMAIL_HOST_PASSWORD, and of others later; warnings are errors here."""
    monkeypatch.setattr(wrapped_settings(), "EMAIL_HOST_PASSWORD", "hunter2xyz", raising=False)
    redaction._secrets.cache_clear()
    assert without_secrets("hunter2xyz") == MASK


def test_a_setting_is_read_when_it_is_needed(settings: Any) -> None:
    assert without_secrets("hunter2xyz") == "hunter2xyz"
    settings.SECRET_KEY = "hunter2xyz"
    assert without_secrets("hunter2xyz") == MASK


def test_names_that_say_no_secret_are_left(settings: Any) -> None:
    settings.AUTH_USER_MODEL = "auth.User"
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.dummy.DummyCache",
            "KEY_PREFIX": "shop_x",
        }
    }
    text = "auth.User shop_x django.contrib.auth.backends.ModelBackend customer"
    assert without_secrets(text) == text


@pytest.fixture
def new_filter() -> Iterator[None]:
    """Django keeps the filter that it has once made."""
    cached: Any = get_default_exception_reporter_filter
    cached.cache_clear()
    yield
    cached.cache_clear()


class Filter:
    """A project's own, which need not be a subclass of Django's."""

    hidden_settings = re.compile("COMBINATION")


def test_the_projects_own_filter_says_what_is_hidden(settings: Any, new_filter: None) -> None:
    settings.SAFE_COMBINATION = "hunter2xyz"
    settings.DEFAULT_EXCEPTION_REPORTER_FILTER = f"{__name__}.Filter"
    assert without_secrets("hunter2xyz") == MASK


@pytest.mark.parametrize("broken", ["no.such.Filter", "builtins.object"])
def test_a_broken_filter_loses_no_error(broken: str, settings: Any, new_filter: None) -> None:
    settings.SECRET_KEY = "hunter2xyz"
    settings.DEFAULT_EXCEPTION_REPORTER_FILTER = broken
    assert without_secrets("hunter2xyz") == MASK


def test_odd_settings_lose_no_error(settings: Any) -> None:
    def wake() -> None:
        raise RuntimeError("evaluated")

    settings.LAZY_TOKEN = SimpleLazyObject(wake)
    endless: dict[object, object] = {1: "x", None: "y"}
    endless["again"] = endless
    settings.ENDLESS = endless
    settings.SECRET_KEY = ""  # reading it raises
    settings.API_KEY = "hunter2xyz"
    assert without_secrets("hunter2xyz") == MASK


# Excerpts


def test_a_cut_never_leaves_a_part_of_a_secret(settings: Any) -> None:
    secret = "hunter2xyz" * 20
    settings.SECRET_KEY = secret
    # The looked-at part ends, or begins, somewhere within the secret; what follows shrinks to
    # nothing, so that the cut would be seen.
    for place in range(99_790, 100_010, 13):
        filler = f"token='{'x' * (place - 8)}'"
        for text in (
            redaction.redacted_head(filler + secret + "y" * 99_000, 300),
            redaction.redacted_tail("y" * 99_000 + secret + filler, 300),
        ):
            assert "hunter" not in text
            assert len(text) <= 300


def test_an_excerpt_of_a_short_text_is_the_text() -> None:
    assert redaction.redacted_head("abcdef", 6) == redaction.redacted_tail("abcdef", 6) == "abcdef"
    assert redaction.redacted_head("abcdefg", 6) == "abcde…"
    assert redaction.redacted_tail("abcdefg", 6) == "…cdefg"


# The log, and problems at the start


def refused() -> ConnectionError:
    return ConnectionError("no answer from postgres://app:hunter2xyz@db/shop")


def test_reasons_in_log_lines_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    logs.database_down("default", "silent", "", refused(), 3, 0.0)
    logs.end_not_written(a_claim_of(), refused(), "default")
    logs.hints_lost("default", refused())
    with caplog.at_level(logging.DEBUG):
        logs.hints_lost("default", refused())
    assert f"postgres://app:{MASK}@db/shop" in caplog.text
    assert "hunter2" not in caplog.text


def test_the_problems_of_handlers_are_masked(
    settings: Any, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise refused()

    monkeypatch.setattr(registry, "import_string", fail)
    settings.TASK_HANDLERS = ["shop.tasks.End"]
    registry.load()
    assert any(f"postgres://app:{MASK}@db/shop" in problem for problem in registry.problems())
    assert "hunter2" not in str(registry.problems())


def test_the_thresholds_are_those_that_are_documented() -> None:
    assert (SHORTEST, ANYWHERE) == (6, 12)
