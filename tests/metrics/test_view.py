"""The view: who sees it, in which format, and that nobody keeps it."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import include, path
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from django_tasks.metrics import TaskCollector, page
from django_tasks.metrics.views import metrics
from tests.factories import a_row
from tests.metrics.reading import OPENMETRICS

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("now"),
    pytest.mark.urls("tests.metrics.test_view"),
]

urlpatterns = [
    path("", include("django_tasks.metrics.urls")),
    path("by-alias", metrics, {"using": "default"}),
    path("of-several", metrics, {"using": ["default"]}),
]
# As they send it. Prometheus 3 says how names may be written.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
DOTS, VALUES = (
    f"application/openmetrics-text;version=1.0.0;escaping={scheme}" for scheme in ("dots", "values")
)
TOKEN = "a-token-of-some-length"


@pytest.fixture
def token(settings: Any) -> str:
    settings.DJANGO_TASKS = {"METRICS_TOKEN": TOKEN}
    return TOKEN


def ask(given: str | None = TOKEN, url: str = "/metrics", **headers: str) -> Any:
    if given is not None:
        headers["Authorization"] = f"Bearer {given}"
    return Client().get(url, headers=headers)


def logged_in(*permissions: str, **fields: Any) -> Client:
    user = User.objects.create_user("anna", **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("url", ["/metrics", "/by-alias", "/of-several"])
def test_the_token_opens_it_and_a_parser_reads_it(token: str, url: str) -> None:
    response = ask(url=url)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(response.content.decode())}
    assert "django_tasks_up" in names


def test_openmetrics_is_given_to_those_who_ask_for_it(token: str) -> None:
    response = ask(Accept=OPENMETRICS)
    assert response["Content-Type"].startswith("application/openmetrics-text")
    assert list(openmetrics.text_string_to_metric_families(response.content.decode()))


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2, PROMETHEUS_3, DOTS, VALUES])
def test_the_text_is_that_of_prometheus_client_for_each_scheme_of_escaping(accept: str) -> None:
    a_row(biz_code='a "code"\\ of.all-kinds')
    fixed = list(TaskCollector().collect())
    registry: Any = SimpleNamespace(collect=lambda: fixed)

    encode, content_type = choose_encoder(accept)
    ours, same = page._encoder(accept)

    assert same == content_type
    assert ours(registry) == encode(registry)


def test_names_are_not_escaped_for_prometheus_2() -> None:
    """It takes prometheus-client half of the time of an answer, and changes none."""
    encode: Any = page._encoder(PROMETHEUS_2)[0]
    assert encode.keywords["escaping"] == "allow-utf-8"


def test_no_token_opens_it_unless_one_is_set() -> None:
    for given in (None, "", "None", TOKEN):
        response = ask(given)
        assert response.status_code == 401
        assert response["WWW-Authenticate"] == "Bearer"
        assert b"django_tasks_" not in response.content


@pytest.mark.parametrize("given", ["", "other", TOKEN[:-1], TOKEN + "x", "\xe4\xf6" * 10])
def test_another_token_does_not_open_it(token: str, given: str) -> None:
    assert ask(given).status_code == 401


def test_another_scheme_does_not_open_it(token: str) -> None:
    response = Client().get("/metrics", headers={"Authorization": f"Basic {TOKEN}"})
    assert response.status_code == 401


def test_a_project_in_which_every_page_wants_a_login_sends_no_scraper_to_it(
    token: str, settings: Any
) -> None:
    middleware = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, middleware]
    assert ask().status_code == 200
    assert ask("other").status_code == 401
    assert logged_in("view_task").get("/metrics").status_code == 200


def test_head_is_answered_without_a_body(token: str) -> None:
    response = Client().head("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert (response.status_code, response.content) == (200, b"")
    assert response["Content-Type"] == ask()["Content-Type"]
    assert Client().head("/metrics").status_code == 401


def test_users_who_may_view_tasks_see_it() -> None:
    assert logged_in("view_task").get("/metrics").status_code == 200


@pytest.mark.parametrize("fields", [{}, {"is_staff": True}])
def test_other_users_do_not(fields: dict[str, Any]) -> None:
    assert logged_in(**fields).get("/metrics").status_code == 401


def test_a_project_without_users_has_the_token_alone(token: str) -> None:
    factory = RequestFactory()
    assert metrics(factory.get("/metrics")).status_code == 401
    asked = factory.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert metrics(asked).status_code == 200


def test_with_the_token_no_session_is_asked_for(token: str, queries: Any) -> None:
    """A database of sessions that is down must not hide that of the tasks."""
    with queries() as captured:
        assert ask().status_code == 200
    assert not [query for query in captured.captured_queries if "t_task" not in query["sql"]][2:]
    assert not [query for query in captured.captured_queries if "session" in query["sql"]]


def test_nobody_keeps_it(token: str) -> None:
    for response in (ask(), ask(None)):
        assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_it_is_only_read(token: str, method: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    response: HttpResponse = getattr(Client(), method)("/metrics", headers=headers)
    assert response.status_code == 405


def test_an_anonymous_user_is_none(token: str) -> None:
    request = RequestFactory().get("/metrics")
    request.user = AnonymousUser()
    assert metrics(request).status_code == 401
