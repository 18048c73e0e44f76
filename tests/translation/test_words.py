"""Numbers, times and lengths of time in Chinese sentences."""

from datetime import datetime, timedelta, timezone

import pytest
from django.core.management import call_command
from django.utils import timezone as django_timezone

from django_tasks.admin.display import distance, duration, number_of_tasks
from django_tasks.models import Task
from django_tasks.reads.why import why
from django_tasks.reads.words import Amount, at, attempts_text, distance_text, span, stamp
from tests.browser.night import Night

NOW = datetime(2027, 3, 11, 13, 7, 31, tzinfo=timezone.utc)

pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 秒"),
        (0.25, "250 毫秒"),
        (1.5, "1.5 秒"),
        (48, "48 秒"),
        (60, "1 分钟"),
        (185, "3 分 5 秒"),
        (3600, "1 小时"),
        (11_100, "3 小时 5 分钟"),
        (86_400, "1 天"),
        (270_000, "3 天 3 小时"),
    ],
)
def test_a_length_of_time_is_one_that_people_write(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(seconds=1), "1 秒"),
        (timedelta(minutes=3), "3 分钟"),
        (timedelta(hours=2, minutes=5), "2 小时 5 分钟"),
        (timedelta(days=2, hours=3), "2 天 3 小时"),
        (timedelta(days=8), "1 周 1 天"),
        (timedelta(days=31), "1 个月"),
        (timedelta(days=366), "1 年"),
    ],
)
def test_a_distance_is_ahead_or_ago(away: timedelta, words: str) -> None:
    def told(moment: datetime) -> str:
        return distance(moment, NOW).replace("\N{NO-BREAK SPACE}", " ")

    assert told(NOW + away) == f"{words}后"
    assert told(NOW - away) == f"{words}前"


def test_distances_of_commands_are_the_same() -> None:
    assert distance_text(NOW + timedelta(minutes=3), NOW) == "3 分钟后"
    assert distance_text(NOW - timedelta(minutes=3), NOW) == "3 分钟前"


@pytest.mark.parametrize(("seconds", "words"), [(0.02, "20.0 毫秒"), (1.5, "1.5 秒")])
def test_the_time_that_a_run_took_is_told(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize("count", [0, 1, 2, 21])
def test_one_task_and_many_have_the_same_words(count: int) -> None:
    assert number_of_tasks(count, False) == f"{count} 个任务"
    assert attempts_text(count) == f"{count} 次尝试"


def test_a_number_that_was_not_counted_to_the_end_stands_as_others_do() -> None:
    assert number_of_tasks(1000, True) == "1000+ 个任务"
    assert str(Amount(0, True)) == "1+"


def test_a_moment_has_24_hours_and_its_zone() -> None:
    with django_timezone.override("Asia/Shanghai"):
        assert at(NOW, NOW) == "21:07:31 CST"
        assert stamp(NOW) == "2027-03-11 21:07:31 CST"


def test_a_reason_is_one_sentence(night: Night) -> None:
    reason = why(night.invoice, using=Task.objects.db).sentence
    assert reason.endswith("次尝试，等待重新排队。")


def test_a_command_answers_in_chinese(night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("listtasks", "--status", "failed")
    assert "个任务（失败）" in capsys.readouterr().out
