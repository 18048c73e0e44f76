"""The language of a page: that of the project, or the one that a browser asks for."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from django_tasks.admin.display import distance
from tests.factories import NOW

LOCALE = "django.middleware.locale.LocaleMiddleware"


@pytest.fixture(autouse=True)
def _no_language_stays() -> Any:
    with translation.override(translation.get_language()):
        yield


def dashboard(boss: Client, **headers: str) -> str:
    response = boss.get(reverse("admin:django_tasks_dashboard"), headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def test_a_project_in_chinese_has_pages_in_chinese(boss: Client, chinese: None) -> None:
    page = dashboard(boss)
    assert 'lang="zh-hans"' in page
    assert "从未运行过工作进程" in page


@pytest.mark.parametrize("asked", ["zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans", "zh-SG"])
def test_a_browser_that_asks_for_chinese_gets_it(boss: Client, settings: Any, asked: str) -> None:
    settings.MIDDLEWARE = [LOCALE, *settings.MIDDLEWARE]
    assert "从未运行过工作进程" in dashboard(boss, accept_language=asked)


def test_another_browser_of_that_project_gets_english(boss: Client, settings: Any) -> None:
    settings.MIDDLEWARE = [LOCALE, *settings.MIDDLEWARE]
    page = dashboard(boss, accept_language="en-GB,en;q=0.9")
    assert "No worker has run yet" in page


def test_a_language_without_words_of_ours_keeps_those_of_django() -> None:
    with translation.override("de"):
        assert "3\N{NO-BREAK SPACE}Stunden" in distance(NOW + timedelta(hours=3), NOW)
    with translation.override("en"):
        assert distance(NOW + timedelta(days=31), NOW) == "in 1\N{NO-BREAK SPACE}month"
