"""Errors: in the language of their reader, and English everywhere else."""

import ast
import copy
import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.utils import translation

import django_tasks
from django_tasks import api
from django_tasks.exceptions import DirectWrite, LockTaken, TaskException, TaskValueError
from django_tasks.logs.lines import say
from django_tasks.sentences import Sentence, counted, in_english, said, sentence
from django_tasks.worker.error_text import error_text
from tests.translation.pseudo import OPEN, unmarked

PACKAGE = Path(django_tasks.__file__).parent
# Sentences that are stored in rows, which are English; and what only a defect of ours raises.
STORED = {
    "testing",
    "migrations",
    "worker/isolated",
    "store/ownership.py",
    "store/finish.py",
    "__init__.py",
}


def queues(count: int) -> Sentence:
    one, many = "%(count)d queue (%(names)s)", "%(count)d queues (%(names)s)"
    return counted(one, many, count, count=count, names="a")


def pickled(value: Any) -> Any:
    """It came through a pipe, as from a pool of processes."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


def refused() -> TaskValueError:
    with pytest.raises(TaskValueError) as caught:
        api.add_task("order", "1", schedule="zz")
    return caught.value


@pytest.mark.usefixtures("bracketed")
def test_an_error_is_read_in_the_language_of_the_moment(db: None) -> None:
    error = refused()
    english = "schedule is none that can be read; possible are 'every 30m'"
    assert str(error)[0] == OPEN
    assert unmarked(str(error)) == set()
    with translation.override("en"):
        assert str(error).startswith(english.partition(" is")[0])
        assert OPEN not in str(error)
    with in_english():
        assert OPEN not in f"{error}"
    assert OPEN in str(error)


@pytest.mark.usefixtures("bracketed")
def test_as_a_value_it_is_english() -> None:
    error = TaskValueError("queue", " x", sentence("must not begin or end with blanks"))
    assert error.problem == "must not begin or end with blanks"
    assert "blanks" in error.problem
    assert repr(error) == "TaskValueError('queue', ' x', 'must not begin or end with blanks')"
    assert (
        json.dumps({"problem": error.problem}) == '{"problem": "must not begin or end with blanks"}'
    )
    assert OPEN in f"{error.problem}"


@pytest.mark.usefixtures("bracketed")
@pytest.mark.parametrize(
    "error",
    [
        TaskValueError("queue", " x", sentence("must not begin or end with blanks"), index=3),
        DirectWrite("save", "add_task"),
        LockTaken(sentence("somebody else holds the lock %(name)r", name="x"), "x"),
        ValueError(
            counted(
                "%(count)d queue (%(names)s)", "%(count)d queues (%(names)s)", 2, count=2, names="a"
            )
        ),
    ],
)
def test_it_is_copied_and_pickled(error: Exception) -> None:
    for other in (copy.copy(error), copy.deepcopy(error), pickled(error)):
        assert type(other) is type(error)
        assert (str(other), said(other)) == (str(error), said(error))
        assert OPEN in str(other)


def test_a_value_that_cannot_be_pickled_or_changes_is_kept_as_its_text() -> None:
    value = [1, lambda: None]
    kept = sentence("a duration cannot be %(duration)r", duration=value)
    before = str(kept)
    value.append(2)
    assert str(pickled(kept)) == str(kept) == before


@pytest.mark.usefixtures("bracketed")
def test_a_number_has_its_plural() -> None:
    one, two = queues(1), queues(2)
    assert (str(one), str(two)) == ("⟦1 queue (a)⟧", "⟦2 queues (a)⟧")
    assert (one, two) == ("1 queue (a)", "2 queues (a)")


def test_a_translation_with_other_placeholders_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translation, "gettext", lambda text: "%(other)s")
    assert str(sentence("must be one of %(choices)s", choices="a")) == "must be one of a"


@pytest.mark.usefixtures("bracketed")
def test_log_lines_and_rows_are_english(caplog: pytest.LogCaptureFixture, db: None) -> None:
    error = refused()
    with caplog.at_level(logging.ERROR, "django_tasks"):
        say("test", logging.ERROR, "%(problem)s", {"problem": error.problem}, exc_info=error)
    assert OPEN not in caplog.text
    assert OPEN not in error_text(error)
    assert "possible are" in error_text(error)


@pytest.mark.usefixtures("bracketed")
def test_a_message_of_a_check(settings: Any, db: None) -> None:
    settings.DJANGO_TASKS = {"THREADS": "many", "LEESE": 3}
    settings.TASK_HANDLERS = "x"
    found = [each for each in checks.run_checks() if (each.id or "").startswith("django_tasks.")]
    assert {each.id for each in found} >= {"django_tasks.E003", "django_tasks.W001"}
    for each in found:
        text = str(each).partition(each.id or "")[2]
        assert unmarked(text.replace("HINT", "")) <= {"THREADS", "many", "LEESE"}


def test_without_django_or_before_it_is_set_up_errors_are_english() -> None:
    code = """
from django_tasks.schedules import Every
try:
    Every(minutes=0)
except ValueError as error:
    print(error)
from django.conf import settings
settings.configure(USE_I18N=True, LANGUAGE_CODE="de", INSTALLED_APPS=["django_tasks"])
try:
    Every(minutes=0)
except ValueError as error:
    print(error)
"""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("DJANGO")}
    output = subprocess.check_output(
        [sys.executable, "-c", code], text=True, cwd=PACKAGE.parent, env=environment
    )
    first, second = output.splitlines()
    assert first == second
    assert "must be longer than nothing" in first


def test_every_sentence_that_is_raised_is_marked() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith(tuple(STORED)):
            found += [f"{name}: {text}" for text in _bare(ast.parse(path.read_text("utf-8")))]
    assert found == []


def _bare(tree: ast.AST) -> list[str]:
    """Texts of more than a word that are given to an error as they are."""
    raised = [
        node.exc
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]
    return [
        ast.unparse(each)
        for call in raised
        for each in call.args
        if isinstance(each, ast.JoinedStr)
        or (isinstance(each, ast.Constant) and " " in str(each.value).strip())
    ]


def test_the_words_of_others_stay_theirs() -> None:
    assert isinstance(said(TaskException(sentence("must be a text"))), Sentence)
    assert said(ValueError("theirs")) == "theirs"
