"""The connection that a view may keep from one scrape to the next."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.backends.signals import connection_created
from django.test import RequestFactory

from django_tasks.metrics import collector, page
from django_tasks.metrics.views import metrics
from django_tasks.store.connection import KeptConnections
from tests.vendor import SERVERS, only_on

TOKEN = "a-token-of-some-length"
pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(*SERVERS, because="a scrape of a file has no connection of its own"),
]


@pytest.fixture(autouse=True)
def _closed_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[KeptConnections] = []

    def kept(*args: Any) -> KeptConnections:
        made.append(KeptConnections(*args))
        return made[-1]

    monkeypatch.setattr(collector, "KeptConnections", kept)
    page._registry.cache_clear()
    yield
    page._registry.cache_clear()
    for own in (own for each in made for own in each._idle.values()):
        own.close()


@pytest.mark.parametrize(("keeps", "opened"), [(False, 3), (True, 1)], ids=["closed", "kept"])
def test_a_view_opens_a_connection_for_each_scrape_unless_told_to_keep_it(
    keeps: bool, opened: int, settings: Any, handlers: Any
) -> None:
    settings.DJANGO_TASKS = {"METRICS_TOKEN": TOKEN}
    request = RequestFactory().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    found = []

    def count(**_: Any) -> None:
        found.append(1)

    connection_created.connect(count)
    try:
        for _ in range(3):
            response = metrics(request, keep_connections=keeps)
            assert b'django_tasks_up{database="default"} 1' in response.content
    finally:
        connection_created.disconnect(count)
    assert len(found) == opened
