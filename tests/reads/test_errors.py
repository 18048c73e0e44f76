"""The message of an error, in a line."""

import pytest

from django_tasks.reads.words import error_line

OF_A_DATABASE = """Traceback (most recent call last):
  File "a.py", line 1, in handle
    cursor.execute(sql)
django.db.utils.ProgrammingError: relation "t_order" does not exist
LINE 1: SELECT 1 FROM t_order
                      ^
"""


@pytest.mark.parametrize(
    ("exception", "error", "line"),
    [
        ("", "", ""),
        ("a.b.Boom", "", "Boom"),
        ("builtins.ValueError", "Traceback\n  File\nValueError: no\n", "ValueError: no"),
        ("a.b.Boom", "Traceback\na.b.Boom: no", "Boom: no"),
        ("a.b.Boom", "a.b.Boom: first\n  second", "Boom: first"),
        (
            "django.db.utils.ProgrammingError",
            OF_A_DATABASE,
            'ProgrammingError: relation "t_order" does not exist',
        ),
        ("", "rescued too often", "rescued too often"),
        ("", "x" * 999, "x" * 299 + "…"),
        ("a.b.Boom", "the end of a long message\n   ^\n", "Boom: the end of a long message"),
        ("", "^", ""),
    ],
)
def test_an_error_is_told_in_one_line(exception: str, error: str, line: str) -> None:
    assert error_line(exception, error) == line
