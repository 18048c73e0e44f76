"""A log that goes through a queue to a thread: the children of a supervisor have no such thread."""

import pytest

from django_tasks.supervisor.processes import UNREAD
from tests.integration.conftest import Start
from tests.integration.conftest import journal as journal
from tests.integration.conftest import start as start
from tests.waiting import DEADLINE

pytestmark = pytest.mark.django_db(transaction=True)


def ended(start: Start, **environment: str) -> str:
    flags = ("--processes", "2", "--until-empty")
    process = start(*flags, DJANGO_SETTINGS_MODULE="tests.environments.listening", **environment)
    assert process.ended(DEADLINE) == 0
    return process.log()


def test_a_child_whose_log_nobody_reads_says_so(start: Start) -> None:
    log = ended(start)
    assert log.count(UNREAD) == 2
    assert " polls " not in log


def test_one_that_listens_again_says_what_it_does(start: Start) -> None:
    log = ended(start, LISTEN_AGAIN="1")
    assert UNREAD not in log
    assert log.count(" polls ") == 2
