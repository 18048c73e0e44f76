"""The process of a page's project: checks, migrations, interactive examples, statements.

It reads a request a line, JSON, and answers each by a text: what is wrong, or nothing. It is
started by its path, in the project's folder, and knows nothing else of the tests.
"""

import doctest
import importlib
import json
import os
import re
import sys
import traceback
from io import StringIO
from pathlib import Path

sys.path[0] = str(Path(__file__).parent)
from comparing import same  # type: ignore[import-not-found]  # noqa: E402

sys.path[0] = os.getcwd()

Names = dict[str, object]


class Checker(doctest.OutputChecker):
    """Compare as the collector compares the output of commands."""

    times_differ = False

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return bool(same(want, got, self.times_differ))


def prepare(modules: list[str], migrate: bool) -> str:
    """Import what the page shows, check the project, and make its tables."""
    import django

    django.setup()
    for name in modules:
        importlib.import_module(name)
    from django.core import checks
    from django.core.management import call_command

    messages = checks.run_checks(include_deployment_checks=False)
    if loud := [str(each) for each in messages if not each.is_silenced()]:
        return "manage.py check says: " + "\n".join(loud)
    if migrate:
        call_command("migrate", run_syncdb=True, verbosity=0)
    return ""


def models() -> Names:
    """What the shell of Django has without an import."""
    from django.apps import apps

    return {model.__name__: model for model in reversed(apps.get_models())}


def interactive(text: str, names: Names, line: int, times_differ: bool) -> str:
    names.update({name: model for name, model in models().items() if name not in names})
    example = doctest.DocTestParser().get_doctest(text + "\n", names, "page", "page", line - 1)
    checker = Checker()
    checker.times_differ = times_differ
    said = StringIO()
    runner = doctest.DocTestRunner(checker, verbose=False)
    runner.run(example, out=said.write, clear_globs=False)
    names.update(example.globs)
    return said.getvalue()


def statements(text: str) -> str:
    from django.db import connection

    without_comments = re.sub(r"--.*", "", text)
    with connection.cursor() as cursor:
        for statement in without_comments.split(";"):
            if statement.strip():
                cursor.execute(statement)
                if cursor.description:
                    cursor.fetchall()
    return ""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    names: Names = {"__name__": "__console__"}
    for request in map(json.loads, sys.stdin):
        does = request.pop("do")
        try:
            if does == "prepare":
                problem = prepare(**request)
            elif does == "interactive":
                problem = interactive(names=names, **request)
            else:
                problem = statements(**request)
        except BaseException:
            problem = traceback.format_exc(limit=-6)
        answers.write(json.dumps(problem) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
