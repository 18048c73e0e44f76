"""A browser, a server with the admin, and people who use it."""

from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections
from django.test import override_settings
from playwright.sync_api import Browser, sync_playwright
from pytest_django.live_server_helper import LiveServer

from devtools.browser import chromium
from django_tasks.store import clock
from tests.browser.night import HANDLERS, MOMENT, Night
from tests.browser.person import Person
from tests.browser.windows import NARROW_DARK, WIDE, Look
from tests.vendor import fail_for_want

ZONE = "Europe/Berlin"
PASSWORD = "a long one for tests"

People = Callable[..., Person]


@pytest.fixture(scope="session")
def browser(django_db_setup: None) -> Iterator[Browser]:
    """Chromium, which finds no host but this one.

    It comes after the database and goes before it: beside Playwright's event loop Django makes
    other connections in this thread.
    """
    program = chromium()
    if program is None:
        fail_for_want("Chromium is missing: scripts/setup browser brings it")
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright keeps an event loop in this thread, in which Django would refuse to work. The
        # loop stands still while a test does.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        running = playwright.chromium.launch(executable_path=program, args=[nowhere])
        yield running
        running.close()
        connections.close_all()  # those that were opened beside the loop


@pytest.fixture(scope="session")
def server(browser: Browser) -> Iterator[str]:
    """The address of the admin, which serves every page with a strict policy."""
    # Each browser says what its owner reads.
    added = ["tests.browser.policy.strict_policy", "django.middleware.locale.LocaleMiddleware"]
    languages = [("en", "English"), ("zh-hans", "简体中文")]
    with override_settings(
        MIDDLEWARE=[*added, *settings.MIDDLEWARE], LANGUAGES=languages, TIME_ZONE=ZONE
    ):
        running = LiveServer("127.0.0.1")
        yield running.url
        running.stop()


@pytest.fixture
def troubles() -> Iterator[list[str]]:
    """All that browsers complain of during a test, which then fails."""
    found: list[str] = []
    yield found
    assert not found, "\n".join(dict.fromkeys(found))


@pytest.fixture
def people(browser: Browser, server: str, troubles: list[str]) -> Iterator[People]:
    """Open a window; it is closed after the test."""
    here: list[Person] = []

    def come(look: Look = WIDE, language: str = "en-GB") -> Person:
        here.append(Person(browser, server, look, language))
        return here[-1]

    yield come
    for person in here:
        person.leaves()
        troubles.extend(person.troubles)


@pytest.fixture
def anna(transactional_db: None) -> User:
    """A superuser."""
    return User.objects.create_superuser("anna", password=PASSWORD)


@pytest.fixture
def desk(people: People, anna: User) -> Person:
    """Anna, logged in, before a wide window."""
    return people().is_known_as(anna)


@pytest.fixture
def phone(people: People, anna: User) -> Person:
    """Anna, logged in, with a telephone."""
    return people(NARROW_DARK).is_known_as(anna)


@pytest.fixture
def reader(people: People, anna: User) -> Person:
    """Anna, logged in, who reads Chinese."""
    return people(WIDE, "zh-CN").is_known_as(anna)


@pytest.fixture
def night(anna: User, handlers: Callable[..., None]) -> Iterator[Night]:
    """The moment at which Anna looks, and all that she sees."""
    handlers(*HANDLERS)
    with clock.replaced(lambda using: MOMENT):
        yield Night().falls()
