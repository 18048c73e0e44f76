"""A TCP proxy before a database server, which fails in the ways that networks fail.

It knows of the protocols only what it needs: a packet from the client that contains a statement
which commits by itself, or COMMIT, is one whose answer matters. Cutting *after* such a packet was
answered by the server and *before* the answer is passed on leaves the client not knowing.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Any

_WRITES = re.compile(rb"\b(?:commit|update|insert|delete|with)\b", re.IGNORECASE)
_COMMIT = re.compile(rb"\bcommit\b", re.IGNORECASE)
_CHUNK = 1 << 16
# How long the server may take to carry out what nobody will hear of.
_ANSWER_SECONDS = 5.0


# What a client and the server have of one connection.
Pair = tuple[asyncio.StreamWriter, asyncio.StreamWriter]


class Proxy:
    """Runs in a thread. What it does to connections is set from outside, at any time.

    ``cut_answer``  the chance that an answer to a write or a COMMIT is never passed on
    ``cut_commit``  the same for COMMIT alone
    ``cut_middle``  the chance that the client is cut off in the middle of a write
    ``stall``       pass nothing on, in neither direction, and accept no one
    ``silence``     pass nothing on of the connections that are there; new ones work
    ``source``      the address from which new connections to the server are made

    ``close`` refuses new connections and cuts those that are there; ``open`` lets them in again.
    """

    def __init__(self, server: tuple[str, int], random: Random | None = None) -> None:
        self.cut_answer = 0.0
        self.cut_commit = 0.0
        self.cut_middle = 0.0
        self.source: str | None = None
        self.cuts = 0
        self.port = 0
        self._server = server
        self._random = random or Random()
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._audible: dict[Pair, asyncio.Event] = {}
        self._listener: socket.socket | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._pairs: set[Pair] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="proxy", daemon=True)

    @classmethod
    def before(cls, settings: dict[str, Any]) -> "Proxy":
        """A proxy before the server that one of Django's ``DATABASES`` names."""
        return cls((settings["HOST"], int(settings["PORT"])))

    def __enter__(self) -> "Proxy":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def open(self) -> None:
        """Listen again, at the same port."""
        self._call(self._listen())

    def close(self) -> None:
        """Shut the door. Returns when nothing passes any more."""
        self._call(self._shut())

    def heal(self) -> None:
        """From now on pass everything on."""
        self.cut_answer = self.cut_commit = self.cut_middle = 0.0
        self._loop.call_soon_threadsafe(self._flowing.set)
        self._call(self._restore())

    def stall(self) -> None:
        """Both ends stay open, and nothing comes through."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def silence(self) -> None:
        """Have the connections that are there say nothing any more, and stay open."""
        self._call(self._silence())

    def reset_silent(self) -> None:
        """Cut those that have fallen silent."""
        self._call(self._reset_silent())

    def reset(self) -> None:
        """Cut every connection."""
        self._call(self._reset())

    # In the thread

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._flowing.set()
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    # An own listener: a server of asyncio that is closed while it accepts a connection forgets that
    # connection, open (Python 3.11).

    async def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._accept, self._listener)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _shut(self) -> None:
        self._stop_listening()
        while self._pairs:
            await self._reset()
            await asyncio.sleep(0)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _restore(self) -> None:
        for audible in self._audible.values():
            audible.set()

    async def _silence(self) -> None:
        for audible in self._audible.values():
            audible.clear()

    async def _reset_silent(self) -> None:
        for pair, audible in list(self._audible.items()):
            if not audible.is_set():
                _abort(pair)

    async def _reset(self) -> None:
        for pair in list(self._pairs):
            _abort(pair)

    async def _end(self) -> None:
        self._stop_listening()
        await asyncio.sleep(0)  # a task that is cancelled before its first step closes nothing
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # gone again
            return
        task = self._loop.create_task(self._serve(client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            await self._flowing.wait()
            origin = (self.source, 0) if self.source else None
            server = await asyncio.open_connection(*self._server, local_addr=origin)
            await self._pass_on(reader, writer, *server)
        except OSError:
            pass
        finally:  # also if it is cancelled while it waits
            writer.transport.abort()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        pair = (writer, server_writer)
        if self._listener is None:
            _abort(pair)
            return
        self._pairs.add(pair)
        muted, audible = asyncio.Event(), asyncio.Event()
        audible.set()
        self._audible[pair] = audible
        pumps = [
            asyncio.ensure_future(self._upwards(reader, server_writer, muted, audible)),
            asyncio.ensure_future(self._downwards(server_reader, writer, muted, audible)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pairs.discard(pair)
            self._audible.pop(pair, None)
            _abort(pair)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _upwards(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        muted: asyncio.Event,
        audible: asyncio.Event,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                await audible.wait()
                if _WRITES.search(data) and self._random.random() < self.cut_middle:
                    self.cuts += 1
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    return
                if self._cuts_answer_of(data):
                    self.cuts += 1
                    muted.set()
                    writer.write(data)
                    await writer.drain()
                    await asyncio.sleep(_ANSWER_SECONDS)
                    return
                writer.write(data)
                await writer.drain()

    async def _downwards(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        muted: asyncio.Event,
        audible: asyncio.Event,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                await audible.wait()
                if muted.is_set():
                    return  # the server has carried it out: now cut both off
                writer.write(data)
                await writer.drain()

    def _cuts_answer_of(self, data: bytes) -> bool:
        if _COMMIT.search(data) and self._random.random() < self.cut_commit:
            return True
        return bool(_WRITES.search(data)) and self._random.random() < self.cut_answer


def _abort(pair: Pair) -> None:
    for writer in pair:
        writer.transport.abort()
