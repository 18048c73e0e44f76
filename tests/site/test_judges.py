"""The judges find what is wrong with a page, and nothing else."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.site.comparing import begins, same
from tests.site.judging import complaints, undefined
from tests.site.reading import Page, read
from tests.site.running import run
from tests.site.terminal import commands

GOOD = """
Orders
======

.. code-block:: python

    # mysite/settings.py
    INSTALLED_APPS = [..., "shop"]
    SHOP_DAYS = 3

.. code-block:: python

    # shop/task_handlers.py
    from django.conf import settings
    from django_tasks.api import TaskHandler

    from shop.models import Order


    class Count(TaskHandler):
        biz_code = "count"

        def handle(self, task):
            print("orders:", Order.objects.count(), "days:", settings.SHOP_DAYS)

.. code-block:: python

    # shop/tests.py
    import pytest

    from django_tasks.api import add_task
    from django_tasks.testing import run_due_tasks
    from shop.models import Order


    @pytest.mark.django_db
    def test_a_count(capsys):
        Order.objects.create(number="1")
        add_task("count", 7)
        run_due_tasks()
        assert "orders: 1 days: 3" in capsys.readouterr().out

.. code-block:: pycon

    >>> from django_tasks.api import add_task
    >>> number = 7
    >>> add_task("count", number)
    <...>

.. code-block:: sql

    -- What is due; all of it.
    SELECT COUNT(*) FROM t_task;
    SELECT 1

.. times differ

.. code-block:: console

    $ python manage.py starttask --until-empty \\
    > --threads 1 2>/dev/null
    ...
    orders: 99 days: 99
    $ export NUMBER=8; cd shop
    $ echo "$NUMBER" in "$(basename $PWD)"
    8 in shop

.. code-block:: console

    $ cd ..

.. keeps running

.. code-block:: console

    $ python manage.py starttask
    ...
    ... Ctrl-C stops.

.. code-block:: console

    $ python -c "from threading import Event; print('on'); Event().wait(60)"
    on
    ^C
    ...
    KeyboardInterrupt

.. code-block:: console

    $ python manage.py canceltasks
    CommandError: ...
    $ (exit 3)
    $ echo $?
    3

.. exits with: 2

.. code-block:: console

    $ echo one
    one
    $ python manage.py starttask --no-such-flag
    ...

.. not run: it has many more words

.. code-block:: shell

    rm -rf /
"""


def page(place: Path, text: str) -> Page:
    path = place / "page.rst"
    path.write_text(dedent(text), encoding="utf-8")
    return read(path)


def test_a_good_page_is_good(tmp_path: Path, database: dict[str, Any]) -> None:
    good = page(tmp_path, GOOD)
    assert complaints(good) == []
    assert undefined(good, tmp_path / "names") == []
    assert run(good, tmp_path / "project", database) == []


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (".. code-block:: python\n\n    a = 1", 1, "names its file"),
        (".. code-block:: python\n\n    # shop/a.py\n    a =", 1, "no Python: invalid syntax"),
        ("* a\n\n  .. code-block:: python\n\n      a = 1", 3, "names its file"),
        (".. only:: html\n\n  .. code-block:: python\n\n      a = 1", 3, "names its file"),
        (".. code-block:: shell\n   :caption: a\n\n   ls", 1, "shell is not run"),
        (".. code-block:: console\n\n    ls", 1, "begins with a prompt"),
        (".. code-block:: pycon\n\n    a = 1", 1, "begins with a prompt"),
        (".. code-block:: text\n\n    $ ls", 1, "is one of console"),
        ("Words::\n\n    $ ls", 3, "is one of console"),
        (".. not run: never\n\n.. code-block:: shell\n\n    ls", 3, "a reason of some words"),
        (".. not run\n\n.. code-block:: shell\n\n    ls", 3, "a reason of some words"),
        (".. Not run: it needs a cluster\n\n.. code-block:: sql\n\n    ls", 3, "no order"),
        (".. run on: oracle\n\n.. code-block:: sql\n\n    ls", 3, "names databases of sqlite"),
        (".. run by: tests/none.py\n\n.. code-block:: sql\n\n    ls", 3, "names no file"),
        (".. run by: tests/waiting.py\n\n.. code-block:: sql\n\n    ls", 3, "nothing of page.rst"),
        (".. exits with: an error\n\n.. code-block:: console\n\n    $ ls", 3, "from 0 to 255"),
        (".. begins with: tests/none\n\nWords.", 1, "tests/none has no begin.py"),
        (".. exits with: 256\n\n.. code-block:: console\n\n    $ ls", 3, "from 0 to 255"),
        (".. exit code: 1\n\n.. code-block:: console\n\n    $ ls", 3, "no order"),
        (".. project: from scratch\n\nWords.", 1, "can only be “from nothing”"),
        (".. times differ\n\nWords.", 2, "is before no block"),
        (".. unheard-of::\n\n    Words.", 1, "Unknown directive"),
    ],
)
def test_a_block_that_nobody_runs_is_found(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    (found,) = {each.partition("page.rst:")[2] for each in complaints(page(tmp_path, text))}
    assert found.startswith(f"{line}: ")
    assert problem in found


def test_an_undefined_name_is_found(tmp_path: Path) -> None:
    text = ".. code-block:: python\n\n    # shop/a.py\n    def f():\n        return timedelta(1)"
    (found,) = undefined(page(tmp_path, text), tmp_path / "names")
    assert "Undefined name `timedelta`" in found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".. code-block:: pycon\n\n    >>> 1 + 1\n    3", "Expected:"),
        (".. code-block:: console\n\n    $ echo one\n    two", "- two\n+ one"),
        (".. code-block:: console\n\n    $ echo one\n    one\n    two", "- two"),
        (".. code-block:: console\n\n    $ false", "The exit code is 1"),
        (
            ".. code-block:: console\n\n    $ python manage.py starttask --no-such-flag\n    ...",
            "The exit code is 2",
        ),
        (
            ".. code-block:: console\n\n    $ echo CommandError: no\n    CommandError: no",
            "The exit code is 0",
        ),
        (
            ".. exits with: 2\n\n.. code-block:: console\n\n    $ false",
            "The exit code is 1",
        ),
        (
            ".. exits with: 1\n\n.. code-block:: console\n\n    $ false\n    $ false",
            "The exit code is 1",
        ),
        (".. code-block:: sql\n\n    SELECT a FROM nowhere", "nowhere"),
        (
            ".. keeps running\n\n.. code-block:: console\n\n    $ echo one\n    two",
            "The output is another one",
        ),
        (".. code-block:: python\n\n    # shop/a.py\n    import nowhere", "ModuleNotFoundError"),
        (
            ".. code-block:: python\n\n    # mysite/settings.py\n    TASK_HANDLERS = ['shop.a.B']",
            "manage.py check says",
        ),
        (
            ".. code-block:: python\n\n    # shop/tests.py\n    def test_a():\n        assert 0",
            "the tests of the page fail",
        ),
    ],
)
def test_what_goes_wrong_is_found(
    tmp_path: Path, database: dict[str, Any], text: str, problem: str
) -> None:
    (found,) = run(page(tmp_path, text), tmp_path / "project", database)
    assert "page.rst" in found
    assert problem in found


FROM_NOTHING = """
.. project: from nothing

Begin
=====

.. code-block:: console

    $ ls
    $ django-admin startproject mysite .

.. code-block:: python

    # mysite/settings.py
    USE_TZ = False

.. code-block:: pycon

    >>> from django.conf import settings
    >>> settings.USE_TZ, settings.ROOT_URLCONF
    (False, 'mysite.urls')
"""


BEGUN = """
.. begins with: tests/site/night

.. code-block:: pycon

    >>> Task.objects.get(biz_code="fax").biz_num
    '42'
"""


def test_a_page_may_begin_with_rows(tmp_path: Path, database: dict[str, Any]) -> None:
    assert run(page(tmp_path, BEGUN), tmp_path / "project", database) == []


def test_a_page_may_make_its_project_itself(tmp_path: Path, database: dict[str, Any]) -> None:
    assert run(page(tmp_path, FROM_NOTHING), tmp_path / "project", database) == []


def test_a_walk_stops_at_the_first_problem(tmp_path: Path, database: dict[str, Any]) -> None:
    wrong = FROM_NOTHING.replace("(False, 'mysite", "(True, 'yours")
    wrong += "\n.. code-block:: console\n\n    $ touch after\n"
    (found,) = run(page(tmp_path, wrong), tmp_path / "project", database)
    assert "page.rst:17: " in found
    assert "Expected:" in found
    assert not (tmp_path / "project" / "after").exists()


@pytest.mark.parametrize(
    ("wanted", "came"),
    [
        ("a b", "a   b\n\n"),
        ("...", ""),
        ("...", "a\nb"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a ... d", "a b c d"),
        ("a.b (c)", "a.b (c)"),
    ],
)
def test_output_is_the_same(wanted: str, came: str) -> None:
    assert same(wanted, came)


@pytest.mark.parametrize(
    ("wanted", "came"),
    [("a", "b"), ("a", "a\nb"), ("a\nb", "a"), ("a ... d", "a b\nd"), ("a.b", "axb"), ("1", "2")],
)
def test_output_is_another(wanted: str, came: str) -> None:
    assert not same(wanted, came)


def test_numbers_are_any_numbers_where_times_differ() -> None:
    assert same("in 0.12 s", "in 10.5 s", times_differ=True)
    assert not same("in 0.12 s", "in no s", times_differ=True)
    assert begins("in 0.12 s", "in 0.12 s\nand more")


def test_a_command_has_further_lines() -> None:
    block = "$ cat \\\n  a\n1\n$ cat <<END\n> $ b\n> END\n$ b"
    assert [(each.text, each.wanted) for each in commands(block)] == [
        ("cat \\\n  a", "1\n"),
        ("cat <<END\n$ b\nEND", ""),
        ("b", ""),
    ]
