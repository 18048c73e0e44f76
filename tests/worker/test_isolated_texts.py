"""A claim and an end survive their way through a pipe, whatever they hold."""

from dataclasses import fields
from datetime import datetime, timedelta, timezone
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.store.finish import Ended
from django_tasks.values import outcomes
from django_tasks.values.claimed import Claimed
from django_tasks.values.runs import HistoryLine
from django_tasks.worker.isolated.texts import (
    claim_of_text,
    claim_to_text,
    end_of_text,
    end_to_text,
)
from tests.factories import a_claim_of

times = st.datetimes(timezones=st.just(timezone.utc))
# As in rows: text without surrogates, that may hold line ends, quotes and any script.
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(0, 2**63 - 1)
small = st.integers(-32768, 32767)
claims = st.builds(
    Claimed,
    id=numbers,
    version=numbers,
    biz_code=texts,
    biz_num=texts,
    when=times,
    biz_ext=st.none() | texts,
    queue=texts,
    priority=small,
    attempts=small,
    rescues=small,
    create_time=times,
    last_error=texts,
    schedule=st.none() | texts,
    scheduled_time=st.none() | times,
    worker_id=numbers,
    claim_time=times,
)
again = st.builds(outcomes.Again, times)
retries = st.builds(outcomes.Retry, times, texts, st.booleans(), texts)
fails = st.builds(outcomes.Fail, texts, texts)
OUTCOMES: dict[type[Any], st.SearchStrategy[Any]] = {
    outcomes.Done: st.builds(
        outcomes.Done, st.sampled_from(["done", "skipped"]), st.none() | texts
    ),
    outcomes.Reschedule: st.builds(
        outcomes.Reschedule,
        times,
        st.none() | texts,
        st.none() | times,
        texts,
        st.sampled_from(["rescheduled", "skipped", "failed"]),
        texts,
        st.none() | texts,
    ),
    outcomes.Retry: retries,
    outcomes.Fail: fails,
    outcomes.Again: again,
    outcomes.GiveBack: st.builds(outcomes.GiveBack),
    outcomes.Settled: st.builds(outcomes.Settled),
    outcomes.Lost: st.builds(outcomes.Lost),
    outcomes.Unsettled: st.builds(outcomes.Unsettled, retries | fails | again),
}
lines = st.builds(
    HistoryLine,
    biz_code=texts,
    biz_num=texts,
    when=times,
    scheduled_time=st.none() | times,
    started=times,
    ended=times,
    outcome=texts,
    missed=texts,
    attempt=small,
    worker=texts,
    error=texts,
    exception=texts,
    detail=st.none() | texts,
)


def test_every_outcome_and_every_fact_of_it_is_tried_here() -> None:
    assert set(OUTCOMES) == set(get_args(outcomes.Outcome))
    assert [len(fields(kind)) for kind in (outcomes.Retry, outcomes.Reschedule)] == [4, 7]


@given(claims)
def test_a_claim_comes_through_in_one_line(claimed: Claimed) -> None:
    text = claim_to_text(claimed)
    assert text.isascii()
    assert "\n" not in text
    there = claim_of_text(text)
    assert there == claimed
    assert type(there) is Claimed


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_end_comes_through_in_one_line(kind: type[Any], data: st.DataObject) -> None:
    ended = Ended(
        data.draw(claims), data.draw(OUTCOMES[kind]), data.draw(texts), data.draw(st.none() | lines)
    )
    text = end_to_text(ended)
    assert text.isascii()
    assert "\n" not in text
    there = end_of_text(text)
    assert there == ended
    assert type(there.outcome) is kind


def test_a_time_of_another_zone_is_the_same_moment() -> None:
    moment = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    ended = Ended(a_claim_of(), outcomes.Again(moment))
    assert end_of_text(end_to_text(ended)) == ended


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "[1, 2, 3, 4]",
        "null",
        '{"time": 1}',
        "[[], {}, null, null]",
        '[[], {"Exit": {}}, "", null]',
        '[[], {"Done": {"counts": 1}}, "", null]',
        '[[], {"time": "nonsense"}, "", null]',
    ],
    ids=range(10),
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        end_of_text(text)
