"""Pages of the admin in Chinese: no word of ours in English is on them."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils.text import capfirst

from django_tasks.values.keys import DEFAULT_QUEUE
from tests.browser.night import Night
from tests.browser.places import PLACES, Place
from tests.translation.marks import CHINESE, RULES
from tests.translation.reading import Reading, english

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
# What its Chinese does with marks and blanks: titles, labels, times, lists of words.
DJANGOS_MARKS = re.compile(
    r"(修改|增加|查看|搜索|删除所选的) \w+| \| Django 站点管理员$|^\w+:$|\d{4}年\d+月\d+日| 和 "
    r"|^欢迎， |^在应用程序 .* 中的模型$|^开始输入以筛选\.\.\.$|条结果。 \(|\(?显示全部\)"
)
# Digits and names in brackets stand in those of Chinese, on a page.
BRACKET = re.compile(rf"{CHINESE} \(")

pytestmark = pytest.mark.usefixtures("chinese")


def values_of_rows() -> frozenset[str]:
    """All that stands in the rows, and the names that a project gives."""
    found = {DEFAULT_QUEUE, *_names_of_other_apps()}
    for model in apps.get_app_config("django_tasks").get_models():
        # Words of ours that stand in rows are shown in Chinese.
        names = [
            field.attname
            for field in model._meta.concrete_fields
            if not field.choices and field.attname != "state"
        ]
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


def pages(night: Night, boss: Client) -> Iterator[tuple[str, Place, str]]:
    """Each place, with its name and its page."""
    for name, place in PLACES.items():
        response = boss.get(reverse(f"admin:{place.name}", args=place.about(night)), place.query)
        assert response.status_code == 200
        yield name, place, response.content.decode()


def test_no_page_in_chinese_has_an_english_word_of_ours(night: Night, boss: Client) -> None:
    known = values_of_rows()
    found = {}
    for name, place, body in pages(night, boss):
        asked = known | {str(value) for value in place.query.values()}
        found[name] = set(english(body, asked)) - DJANGOS_OWN
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_marks_and_spaces_on_pages_are_those_of_chinese(night: Night, boss: Client) -> None:
    found = {name: set(wrongly_marked(body)) for name, _place, body in pages(night, boss)}
    assert {name: texts for name, texts in found.items() if texts} == {}


def wrongly_marked(body: str) -> Iterator[str]:
    """Texts that break a rule, and lines, in which a blank may stand between two elements."""
    reading = Reading(body)
    rules_of_texts = {"bracket": BRACKET} | RULES
    rules_of_lines = {name: rule for name, rule in rules_of_texts.items() if name != "loose"}
    for texts, rules in ((reading.texts, rules_of_texts), (reading.lines, rules_of_lines)):
        for text in texts:
            ours = DJANGOS_MARKS.sub("\0", " ".join(text.split()))
            yield from (f"{name}: {text}" for name, rule in rules.items() if rule.search(ours))


@pytest.mark.parametrize(
    ("name", "words"), [("workers", "3 个工作进程"), ("pauses", "1 项暂停"), ("locks", "2 个锁")]
)
def test_the_foot_of_a_list_has_a_measure_word(
    name: str, words: str, night: Night, boss: Client
) -> None:
    page = boss.get(reverse(f"admin:{PLACES[name].name}"))
    assert words in Reading(page.content.decode()).texts
