"""The language of the tests, those who read it, and what they look at."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation
from django.utils.translation import trans_real

from django_tasks.store import clock
from tests.browser.night import HANDLERS, MOMENT, Night
from tests.factories import NOW
from tests.translation import pseudo


@pytest.fixture
def bracketed(settings: Any) -> Iterator[None]:
    """The language of the project is the one in brackets."""
    settings.LANGUAGE_CODE = pseudo.LANGUAGE
    pseudo.german()
    pseudo.install()
    with clock.replaced(lambda using: NOW):
        yield
    trans_real._translations.pop(pseudo.LANGUAGE, None)  # type: ignore[attr-defined]


@pytest.fixture
def chinese(settings: Any) -> Iterator[None]:
    """A project in simplified Chinese."""
    settings.LANGUAGE_CODE = "zh-hans"
    with translation.override("zh-hans"):
        yield


@pytest.fixture
def night(db: None, handlers: Callable[..., None]) -> Iterator[Night]:
    """The moment at which somebody looks, and all that is seen."""
    handlers(*HANDLERS)
    with clock.replaced(lambda using: MOMENT):
        yield Night().falls()


@pytest.fixture
def boss(db: None) -> Client:
    """A superuser, logged in."""
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client
