"""Answers over HTTP: is it alive, is it ready, its figures."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from threading import BoundedSemaphore
from typing import Any

from django.utils.translation import gettext

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.probes.board import Board
from django_tasks.probes.health import ProbeFacts, judge
from django_tasks.reads.words import listed

# The longest wait for a piece of a request.
READ_SECONDS = 5.0
# Figures ask a database, which may take its time: probes must find a free thread all the same.
MOST_PAGES = 2

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """An answer to GET."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON


# By the header Accept of the request.
Route = Callable[[str], ProbeAnswer]
Site = Mapping[str, Route]
# The figures for an Accept: the body and its content type.
Page = Callable[[str], tuple[bytes, str]]


def health_site(board: Board, facts: ProbeFacts) -> Site:
    """Liveness and readiness, under the names that are usual, too."""

    def answer(question: str) -> ProbeAnswer:
        signs = board.read()
        document = judge(signs, facts, ticks()).document(facts, signs)
        return _json(document, is_well=document[question])

    def live(accept: str) -> ProbeAnswer:
        return answer("live")

    def ready(accept: str) -> ProbeAnswer:
        return answer("ready")

    return {"/live": live, "/ready": ready, "/healthz": live, "/readyz": ready}


def metrics_site(page: Page) -> Site:
    """The figures of ``page``."""
    free = BoundedSemaphore(MOST_PAGES)

    def metrics(accept: str) -> ProbeAnswer:
        if not free.acquire(blocking=False):
            busy = gettext("Other requests for the metrics are under way.")
            return _json({"reason": busy}, is_well=False)
        try:
            return ProbeAnswer(HTTPStatus.OK, *page(accept))
        except Exception:  # noqa: BLE001 - the next request may be luckier
            logs.metrics_failed()
            reason = gettext("The metrics cannot be read; the log says why.")
            return ProbeAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, _body({"reason": reason}))
        finally:
            free.release()

    return {"/metrics": metrics}


def _json(document: dict[str, Any], *, is_well: bool) -> ProbeAnswer:
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return ProbeAnswer(status, _body(document))


def _body(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, ensure_ascii=False) + "\n").encode()


class Handler(BaseHTTPRequestHandler):
    """One request of one connection: GET or HEAD, whatever else gets 501."""

    server_version, sys_version = "django_tasks", ""
    timeout = READ_SECONDS
    wbufsize = -1  # headers and body in one piece: this process may be ended between two
    server: Any  # the site: nothing else is asked of a server

    def do_GET(self) -> None:
        self.wfile.write(self._begin())

    def do_HEAD(self) -> None:
        self._begin()

    def finish(self) -> None:
        """Send what is left, and let go of the connection, also where its client is gone.

        The base class would leave the reading end open then, and with it the descriptor.
        """
        try:
            super().finish()
        finally:
            self.rfile.close()

    def _begin(self) -> bytes:
        answer = self._answer()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        return answer.body

    def _answer(self) -> ProbeAnswer:
        route = self.server.get(self.path.partition("?")[0])
        if route is None:
            reason = gettext("There is only %(paths)s.") % {"paths": listed(self.server)}
            return ProbeAnswer(HTTPStatus.NOT_FOUND, _body({"reason": reason}))
        answer: ProbeAnswer = route(self.headers.get("Accept", ""))
        return answer

    def log_message(self, *args: Any) -> None:
        """Nothing: probes come all the time."""
