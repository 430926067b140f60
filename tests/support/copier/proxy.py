"""A TCP proxy that is a bad network: it delays, stalls, swallows everything, and heals again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from deploy.brokers.ports import LOOPBACK

__all__ = ["TcpProxy"]

_CHUNK = 64 * 1024
_STOP_S = 10.0

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TcpProxy:
    """Passes bytes between clients and `port` of this machine. `delay_to_client_s` and
    `client_bytes_per_s`, the rate of each connection to a client, may be changed at any time, for
    bytes that come from then on. `sent` is called with the bytes of clients as they come.

    One thread with an event loop of its own; all methods are for other threads.
    """

    def __init__(self, port: int) -> None:
        self.delay_to_client_s = 0.0
        self.client_bytes_per_s = float("inf")
        self.sent: Callable[[bytes], None] = lambda _: None
        self._upstream = port
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._gates: set[asyncio.Event] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, LOOPBACK, 0), self._loop
        ).result(_STOP_S)
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def cut(self) -> None:
        """Swallow: connections stay, and new ones are made, but no byte passes."""
        self._call(self._open.clear)

    def stall(self) -> None:
        """Let no byte pass on the connections there are, for good; new ones are not concerned."""

        def stall() -> None:
            for gate in self._gates:
                gate.clear()

        self._call(stall)

    def heal(self) -> None:
        """Pass again. Connections from before are reset, as after a long cut."""

        def heal() -> None:
            for writer in list(self._writers):
                writer.transport.abort()
            self._open.set()

        self._call(heal)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, step: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            step()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(_STOP_S), "the proxy does not answer"

    async def _close(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._connect((reader, writer))
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _connect(self, client: _Streams) -> None:
        server = await asyncio.open_connection(LOOPBACK, self._upstream)
        self._writers.add(server[1])
        gate = asyncio.Event()
        gate.set()
        self._gates.add(gate)
        there = self._pump(
            client[0],
            server[1],
            gate,
            lambda: 0.0,
            lambda: float("inf"),
            lambda data: self.sent(data),
        )
        back = self._pump(
            server[0],
            client[1],
            gate,
            lambda: self.delay_to_client_s,
            lambda: self.client_bytes_per_s,
            lambda _: None,
        )
        pumps = [asyncio.ensure_future(there), asyncio.ensure_future(back)]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._gates.discard(gate)
            self._writers.discard(server[1])
            server[1].transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event,
        delay: Callable[[], float],
        rate: Callable[[], float],
        seen: Callable[[bytes], None],
    ) -> None:
        """Until one side ends. What is delayed does not delay the reading of what follows."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._open.wait()
                await gate.wait()
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(len(data) / rate())

        delivering = asyncio.ensure_future(deliver())
        try:
            while data := await reader.read(_CHUNK):
                seen(data)
                queue.put_nowait((self._loop.time() + delay(), data))
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
