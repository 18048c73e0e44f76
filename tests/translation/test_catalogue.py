"""The Chinese catalogue: all of it is there, and it is written in one way."""

import gettext
import re
import subprocess
from pathlib import Path

import django
import polib
import pytest

from devtools import CHECKOUT, translations
from tests.translation.catalogue import KEPT, LANGUAGE, kept, placeholders, read
from tests.translation.marks import RULES
from tests.vendor import fail_for_want

# Values that are a text of ours; all others are digits or Latin letters.
SPAN, AMOUNT, CHINESE_TEXT = "3 分钟", "3 个任务", "全部"
OURS = {
    **dict.fromkeys(("ago", "distance", "silence", "span"), SPAN),
    **dict.fromkeys(("runs_found", "tasks"), AMOUNT),
    **dict.fromkeys(("next", "reason", "scope", "scopes", "status", "word", "words"), CHINESE_TEXT),
    **dict.fromkeys(("paused", "question", "sentence", "steps"), CHINESE_TEXT),
    "waiting": CHINESE_TEXT,
}


@pytest.fixture(autouse=True)
def _gettext_is_there() -> None:
    if reason := translations.why_not():
        fail_for_want(f"gettext is missing ({reason}): scripts/setup test brings it")


def test_the_messages_of_the_catalogue_are_those_of_the_code(tmp_path: Path) -> None:
    said = read(translations.extract(LANGUAGE, tmp_path))
    assert set(said) - set(kept()) == set()
    assert set(kept()) - set(said) == set()


def test_every_message_is_translated_and_was_looked_at() -> None:
    wanting = [
        (each.message.text, sorted(each.flags))
        for each in kept().values()
        if not each.said or each.flags & {"fuzzy", "obsolete"}
    ]
    assert wanting == []


def test_a_translation_has_the_values_of_its_message() -> None:
    different = [
        (each.message.text, each.said)
        for each in kept().values()
        if placeholders(each.said) != placeholders(each.message.plural or each.message.text)
    ]
    assert different == []


def test_chinese_has_one_form_for_all_numbers() -> None:
    said = polib.pofile(str(KEPT))
    assert said.metadata["Plural-Forms"] == "nplurals=1; plural=0;"
    assert all(list(each.msgstr_plural) == [0] for each in said if each.msgid_plural)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_marks_and_spaces_are_those_of_chinese(rule: re.Pattern[str]) -> None:
    wrong = [
        each.said
        for each in kept().values()
        if all(rule.search(_with_values(each.said, time)) for time in (SPAN, "X"))
    ]
    assert wrong == []


def _with_values(text: str, time: str) -> str:
    """The text with Chinese or Latin values in it; ``time`` may be a moment, or a length."""
    values = {f"%({name})s": value for name, value in (OURS | {"time": time}).items()}
    for name in placeholders(text):
        text = text.replace(name, values.get(name, "X"))
    return text.replace("%%", "%")


def test_a_sentence_ends_as_it_does_in_english() -> None:
    ends = {".": "。", "?": "？", ":": "：", "…": "…"}
    wrong = [
        (each.message.text, each.said)
        for each in kept().values()
        if each.message.text[-1:] in ends and each.said[-1:] != ends[each.message.text[-1:]]
    ]
    assert wrong == []


def test_what_django_says_too_is_said_in_its_words() -> None:
    """On a page of the admin its catalogue, or ours, may win: by the order of INSTALLED_APPS."""
    home = Path(django.__path__[0])
    places = (home / "contrib" / "admin", home / "conf")
    djangos = {
        each.message: each.said
        for place in places
        for each in read(translations.catalogue(LANGUAGE, place)).values()
        if not each.message.context
    }
    shared = {message: each.said for message, each in kept().items() if message in djangos}
    assert shared
    assert shared == {message: djangos[message] for message in shared}


def test_the_compiled_catalogue_is_made_of_this_one(tmp_path: Path) -> None:
    fresh = tmp_path / "django.mo"
    translations.compile_into(fresh, KEPT)
    assert _compiled(KEPT.with_suffix(".mo")) == _compiled(fresh)


def _compiled(path: Path) -> dict[object, str]:
    with path.open("rb") as file:
        found: dict[object, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        return found


def test_git_and_the_package_take_the_compiled_catalogue() -> None:
    compiled = KEPT.with_suffix(".mo")
    asked = subprocess.run(
        ["git", "check-ignore", "-q", compiled], cwd=compiled.parent, check=False
    )
    assert asked.returncode != 0
    setup = (CHECKOUT / "setup.cfg").read_text(encoding="utf-8")
    assert "locale/*/LC_MESSAGES/*" in setup
