"""The HTTP server of the probes, over real sockets."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from devtools.servers.ports import free_port
from django_tasks.probes import ports, server
from django_tasks.probes.answers import Site, health_site, metrics_site
from django_tasks.probes.board import Board
from django_tasks.probes.health import facts
from django_tasks.probes.ports import Address, listen_at
from django_tasks.probes.server import Server
from django_tasks.worker.condition import Condition as C
from tests.waiting import DEADLINE, eventually

Serve = Callable[[Site], int]
FACTS = facts(["default"], 30.0)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a site at a port of 127.0.0.1; returns the port."""
    ended = Event()
    running: list[tuple[Thread, list[socket.socket], Server]] = []

    def serve(site: Site) -> int:
        port = free_port()
        listeners = listen_at(Address("127.0.0.1", port))
        made = Server(dict.fromkeys(listeners, site))
        thread = Thread(target=made.run, args=(lambda: not ended.is_set(),))
        thread.start()
        running.append((thread, listeners, made))
        return port

    yield serve
    ended.set()
    for thread, listeners, _ in running:
        thread.join()
        for listener in listeners:
            listener.close()
    everywhere = [made._open for _, _, made in running]
    eventually(lambda: not any(everywhere), "all connections are closed")


def ask(
    port: int, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


@pytest.fixture
def board() -> Board:
    return Board(1, 1)


def test_health_has_four_names_and_two_answers(serve: Serve, board: Board) -> None:
    port = serve(health_site(board, FACTS))
    board.watching.beat([C.WORKING])
    board.processes[0].beat([C.WITHOUT_DATABASE])
    for path, expected in {
        "/live": 200,
        "/healthz": 200,
        "/ready": 503,
        "/readyz?x=1": 503,
    }.items():
        status, headers, body = ask(port, path)
        assert (status, headers["Content-Type"]) == (expected, "application/json")
        assert headers["Cache-Control"] == "no-store"
        assert json.loads(body)["state"] == "without_database"
    board.processes[0].beat([C.WORKING])
    assert ask(port, "/ready")[0] == 200
    board.processes[0].beat([C.HANGING])
    assert (ask(port, "/live")[0], ask(port, "/ready")[0]) == (503, 503)


def test_head_has_the_headers_alone_and_nothing_else_is_answered(
    serve: Serve, board: Board
) -> None:
    port = serve(health_site(board, FACTS))
    status, headers, body = ask(port, "/live", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0
    assert ask(port, "/live", "POST")[0] == 501
    status, _, body = ask(port, "/nonesuch")
    assert status == 404
    assert json.loads(body)["reason"] == "There is only /live, /ready, /healthz, /readyz."


def test_figures_get_what_the_client_accepts(serve: Serve) -> None:
    port = serve(metrics_site(lambda accept: (accept.upper().encode(), "text/strange")))
    status, headers, body = ask(port, "/metrics", Accept="text/plain")
    assert (status, headers["Content-Type"], body) == (200, "text/strange", b"TEXT/PLAIN")


def test_figures_that_cannot_be_told_are_an_error_of_the_server(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(accept: str) -> tuple[bytes, str]:
        raise ValueError("secret")

    status, _, body = ask(serve(metrics_site(broken)), "/metrics")
    assert (status, b"secret" in body) == (500, False)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info


def test_figures_that_take_their_time_leave_threads_to_the_probes(
    serve: Serve, board: Board
) -> None:
    entered, gate = [], Event()

    def slow(accept: str) -> tuple[bytes, str]:
        entered.append(accept)
        assert gate.wait(DEADLINE)
        return b"", "text/plain"

    port = serve({**metrics_site(slow), **health_site(board, FACTS)})
    waiting = [Thread(target=ask, args=(port, "/metrics")) for _ in range(2)]
    for thread in waiting:
        thread.start()
    eventually(lambda: len(entered) == 2, "two requests are under way")
    assert ask(port, "/metrics")[0] == 503
    assert ask(port, "/live")[0] == 200
    gate.set()
    for thread in waiting:
        thread.join()
    assert ask(port, "/metrics")[0] == 200


def test_slow_clients_are_cut_off_and_hold_nobody_up(
    serve: Serve, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTION_SECONDS", 0.3)
    port = serve(health_site(board, FACTS))
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for each in slow:
        each.sendall(b"GET /live HTTP/1.1\r\nX: ")
    assert ask(port, "/live")[0] == 200
    for each in slow:
        each.settimeout(DEADLINE)
        assert each.recv(100) == b""
        each.close()


def test_slow_clients_who_come_again_do_not_keep_the_probes_out(
    serve: Serve, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTION_SECONDS", 10 * DEADLINE)
    port = serve(health_site(board, FACTS))
    ended = Event()

    def dawdle() -> None:
        while not ended.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as slow:
                slow.sendall(b"GET /live HTTP/1.1\r\n")
                slow.settimeout(0.1)
                while not ended.is_set() and slow.recv(1) != b"":
                    pass

    def wait_and_dawdle() -> None:
        while not ended.is_set():
            dawdle()

    slow = [Thread(target=wait_and_dawdle) for _ in range(64)]
    for each in slow:
        each.start()
    assert [ask(port, "/live")[0] for _ in range(10)] == [200] * 10
    ended.set()
    for each in slow:
        each.join()


def test_a_client_that_is_gone_is_no_matter(serve: Serve, board: Board) -> None:
    port = serve(health_site(board, FACTS))
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.sendall(b"GET /live HTTP/1.0\r\n\r\n")
    assert ask(port, "/live")[0] == 200


# Addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8080", "", 8080),
        (":8080", "", 8080),
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("localhost:65535", "localhost", 65535),
        ("[::1]:8080", "::1", 8080),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "http", "a:b", "::1:80", "1.5", "²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Address.parse(text)


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=DEADLINE).close()
    except OSError:
        return False
    return True


def test_a_port_alone_is_every_address_of_this_machine() -> None:
    port = free_port()
    listeners = listen_at(Address("", port))
    assert is_open("127.0.0.1", port)
    assert is_open("::1", port) or not socket.has_dualstack_ipv6()
    for listener in listeners:
        listener.close()


def test_a_host_is_that_address_alone() -> None:
    port = free_port()
    listeners = listen_at(Address("127.0.0.1", port))
    assert is_open("127.0.0.1", port)
    assert not is_open("127.0.0.2", port)
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost"])
def test_a_port_in_use_is_refused_after_a_while(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "WAIT_SECONDS", 0.1)
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        listen_at(Address(host, port))


def test_a_port_that_is_let_go_of_meanwhile_is_taken() -> None:
    port = free_port()
    before = socket.create_server(("127.0.0.1", port))
    found: list[socket.socket] = []
    waiting = Thread(target=lambda: found.extend(listen_at(Address("127.0.0.1", port))))
    waiting.start()
    before.close()
    waiting.join()
    (listener,) = found
    listener.close()
