"""Pages of the admin in Chinese: no word of ours in English is on them."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils.text import capfirst

from django_tasks.values.keys import DEFAULT_QUEUE
from tests.browser.night import Night
from tests.browser.places import PLACES
from tests.language.reading import english

# Texts of Django's own templates that its catalogue lacks.
DJANGOS_OWN = {
    "Add link",
    "Change or view list link",
    "False",
    "Model name",
    "Search",
    "True",
    "- Select an option -",
}

pytestmark = pytest.mark.usefixtures("chinese")


def values_of_rows() -> frozenset[str]:
    """All that stands in the rows, and the names that a project gives."""
    found = {DEFAULT_QUEUE, *_names_of_other_apps()}
    for model in apps.get_app_config("django_tasks").get_models():
        names = [field.attname for field in model._meta.concrete_fields]
        for row in model._base_manager.values_list(*names):
            found |= {str(value) for value in row if isinstance(value, str)}
            for value in row:
                found |= set(_inside(value))
    lines = {line for text in found for line in text.split("\n")}
    # The class of an exception and its message stand apart.
    texts = {*found, *lines, *(line.partition(": ")[2] for line in lines)}
    return frozenset(text for text in texts if re.search("[a-z]{2}", text))


def _names_of_other_apps() -> set[str]:
    found = {str(app.verbose_name) for app in apps.get_app_configs()}
    for model in apps.get_models():
        if model._meta.app_label != "django_tasks":
            names = (str(model._meta.verbose_name), str(model._meta.verbose_name_plural))
            found |= {*names, *map(capfirst, names)}
    return found - {str(apps.get_app_config("django_tasks").verbose_name)}


def _inside(value: Any) -> list[str]:
    """The texts in JSON."""
    if isinstance(value, dict):
        return [*map(str, value), *(text for each in value.values() for text in _inside(each))]
    if isinstance(value, list):
        return [text for each in value for text in _inside(each)]
    return [value] if isinstance(value, str) else []


def test_no_page_in_chinese_has_an_english_word_of_ours(night: Night, boss: Client) -> None:
    known = values_of_rows()
    found = {}
    for name, place in PLACES.items():
        address = reverse(f"admin:{place.name}", args=place.about(night))
        response = boss.get(address, place.query)
        assert response.status_code == 200
        asked = known | {str(value) for value in place.query.values()}
        found[name] = set(english(response.content.decode(), asked)) - DJANGOS_OWN
    assert {name: texts for name, texts in found.items() if texts} == {}
