"""Simulated connections: bytes that are delayed, cut anywhere, lost with a reset, or swallowed.

The client's end is a `SimulatedSocket`, which stands for a non-blocking TCP socket. The broker's
end is a `Connection`: it hands whole requests to its broker one at a time, as Kafka does, and takes
the response. Bytes are copied when `send` takes them, as the kernel does, so a buffer that is
changed too early is seen.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect.clients.wire.poller import READ, WRITE
from tests.simulation.kafka.virtual_time import VirtualTime

__all__ = [
    "Connection",
    "Network",
    "NetworkOptions",
    "ProcessDied",
    "RequestHandler",
    "SimulatedPoller",
    "SimulatedSocket",
]

_RTT_AT, _TCP_INFO_BYTES = 68, 104
_SIZE = struct.Struct(">i")
_LARGE_WINDOW = 1 << 30
_TURN_S = 20e-6
"""What one turn of the loop costs, so that time passes for one that never waits."""


@dataclass(slots=True)
class NetworkOptions:
    """How connections of one cluster behave. Times in seconds; the others are probabilities."""

    delay: float = 0.0005
    """One way, at least; each message takes up to twice as long."""
    spike: float = 0.0
    """That a message is delayed much longer."""
    spike_s: float = 0.5
    cut: float = 0.0
    """That a response arrives in two parts."""
    small_window: float = 0.0
    """That a connection takes few bytes at a time."""


class RequestHandler(Protocol):
    """A broker, as connections see it."""

    def request(self, connection: Connection, frame: memoryview) -> None:
        """A whole request arrived. The broker calls `connection.respond` once, now or later."""

    def disconnected(self, connection: Connection) -> None:
        """The client closed the connection, or it was reset."""


class ProcessDied(BaseException):
    """The simulated process ends here, in the middle of whatever it does."""


class Network:
    """All connections of a simulation."""

    def __init__(self, time: VirtualTime, rng: random.Random) -> None:
        self.time = time
        self.rng = rng
        self.sockets: dict[int, SimulatedSocket] = {}
        self.on_sent: Callable[[Connection, memoryview], None] | None = None
        """Called when a client has handed a whole request to its socket."""
        self.interrupt_after: int | None = None
        """The client's process dies (`ProcessDied`) at the read or write after so many others."""
        self.stirred = False
        """A socket may have become readable or writable since the poller last looked."""
        self._next_descriptor = 1000

    def count_call(self) -> None:
        """A client reads or writes. Raises ProcessDied where that was asked for."""
        if self.interrupt_after is not None:
            self.interrupt_after -= 1
            if self.interrupt_after < 0:
                self.interrupt_after = None
                raise ProcessDied

    def open(self, broker: RequestHandler, options: NetworkOptions) -> SimulatedSocket:
        """A new connection to a broker; its client's end."""
        self._next_descriptor += 1
        connection = Connection(self, broker, options)
        made = SimulatedSocket(self, connection, self._next_descriptor)
        connection.socket = made
        self.sockets[self._next_descriptor] = made
        return made


class SimulatedSocket:
    """The client's end. Has the methods of `socket.socket` that a `Channel` uses."""

    __slots__ = ("_closed", "_connection", "_descriptor", "_incoming", "_network", "ended", "reset")

    def __init__(self, network: Network, connection: Connection, descriptor: int) -> None:
        self._network = network
        self._connection = connection
        self._descriptor = descriptor
        self._incoming: deque[memoryview] = deque()
        self._closed = False
        self.reset = False
        """Reading and writing fail from now on."""
        self.ended = False
        """The broker closed the connection."""

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def readable(self) -> bool:
        return bool(self._incoming) or self.reset or self.ended

    @property
    def writable(self) -> bool:
        return self.reset or self._connection.window > 0

    def arrived(self, data: bytes) -> None:
        if not self._closed and not self.reset:
            self._incoming.append(memoryview(data))
            self._network.stirred = True

    # What a channel calls.

    def fileno(self) -> int:
        return -1 if self._closed else self._descriptor

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        info = bytearray(_TCP_INFO_BYTES)
        struct.pack_into("=I", info, _RTT_AT, int(2e6 * self._connection.options.delay))
        return bytes(info)

    def recv_into(self, buffer: memoryview) -> int:
        self._network.count_call()
        if self.reset:
            self._incoming.clear()
            raise ConnectionResetError("simulated reset")
        if not self._incoming:
            if self.ended:
                return 0
            raise BlockingIOError
        first = self._incoming[0]
        count = min(len(first), len(buffer))
        buffer[:count] = first[:count]
        if count == len(first):
            self._incoming.popleft()
        else:
            self._incoming[0] = first[count:]
        return count

    def send(self, data: memoryview | bytes | bytearray) -> int:
        return self._connection.send(data)

    def sendmsg(self, buffers: Sequence[memoryview | bytes | bytearray]) -> int:
        total = 0
        for data in buffers:
            try:
                sent = self._connection.send(data)
            except BlockingIOError:
                if not total:
                    raise
                return total
            total += sent
            if sent < len(data):
                return total
        return total

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._incoming.clear()
            self._network.sockets.pop(self._descriptor, None)
            self._connection.client_closed()


class Connection:
    """The way between one client and one broker, and the broker's end of it."""

    def __init__(self, network: Network, broker: RequestHandler, options: NetworkOptions) -> None:
        rng = network.rng
        self.options = options
        self.network = network
        self.broker = broker
        self.socket: SimulatedSocket
        self.capacity = _LARGE_WINDOW
        if options.small_window and rng.random() < options.small_window:
            self.capacity = rng.choice((64, 500, 3000))
        self.window = self.capacity
        self.alive = True
        """Bytes still get through, both ways."""
        self.breaks_after: int | None = None
        """The next `send` takes so many bytes and then fails: a reset that nobody has read yet."""
        self._sent = bytearray()
        """The part of a request that the client has sent; the rest follows."""
        self._arrived = bytearray()
        self._frames: deque[bytes] = deque()
        self._busy = False
        self._up_at = self._down_at = 0.0
        self.muted_until = 0.0
        self.open_to_broker = True

    # The client sends.

    def send(self, data: memoryview | bytes | bytearray) -> int:
        self.network.count_call()
        if self.socket.reset:
            raise ConnectionResetError("simulated reset")
        count = min(len(data), self.window)
        if self.breaks_after is not None:
            count = min(count, self.breaks_after)
            self.breaks_after -= count
            if not count:
                self.breaks_after = None
                self.cut(lose_sent=self.network.rng.random() < 0.5)
                self.socket.reset = True
                raise BrokenPipeError("simulated reset while sending")
        if count == 0:
            raise BlockingIOError
        taken = bytes(memoryview(data)[:count])
        self.window -= count
        self._note_sent(taken)
        if self.alive:
            self._up_at = self._moment(self._up_at)
            self.network.time.after(
                self._up_at - self.network.time.monotonic(), lambda: self._reach_broker(taken)
            )
        return count

    def _note_sent(self, taken: bytes) -> None:
        if self.network.on_sent is None:
            return
        self._sent += taken
        for frame in _frames(self._sent):
            self.network.on_sent(self, memoryview(frame))

    def _moment(self, not_before: float) -> float:
        options, rng = self.options, self.network.rng
        delay = options.delay * (1 + rng.random())
        if options.spike and rng.random() < options.spike:
            delay += options.spike_s * rng.random()
        return max(not_before, self.network.time.monotonic() + delay)

    def _reach_broker(self, data: bytes) -> None:
        self.window += len(data)
        self.network.stirred = True
        if not self.open_to_broker:
            return
        self._arrived += data
        self._frames.extend(_frames(self._arrived))
        self._serve()

    def _serve(self) -> None:
        while self._frames and not self._busy and self.open_to_broker:
            wait = self.muted_until - self.network.time.monotonic()
            if wait > 0:
                self._busy = True
                self.network.time.after(wait, self._unmute)
                return
            self._busy = True
            self.broker.request(self, memoryview(self._frames.popleft()))

    def _unmute(self) -> None:
        self._busy = False
        self._serve()

    # The broker answers.

    def respond(self, parts: Iterable[bytes], on_arrival: Callable[[], None] | None = None) -> None:
        """Answer the request that was handed out last: the frame without its size. `on_arrival`:
        called when the client can read all of it."""
        self._busy = False
        body = b"".join(parts)
        data = _SIZE.pack(len(body)) + body
        if self.alive:
            rng = self.network.rng
            if self.options.cut and rng.random() < self.options.cut:
                at = rng.randrange(1, len(data))
                self._send_down(data[:at], None)
                data = data[at:]
            self._send_down(data, on_arrival)
        self._serve()

    def _send_down(self, data: bytes, on_arrival: Callable[[], None] | None) -> None:
        self._down_at = self._moment(self._down_at)
        wait = self._down_at - self.network.time.monotonic()

        def arrive() -> None:
            if self.alive:
                self.socket.arrived(data)
                if on_arrival is not None:
                    on_arrival()

        self.network.time.after(wait, arrive)

    def hold_answers(self, seconds: float) -> None:
        """What is answered from now on reaches the client after so long at the earliest."""
        self._down_at = max(self._down_at, self.network.time.monotonic() + seconds)

    def heal(self, options: NetworkOptions) -> None:
        """Behave so from now on, and take as many bytes at a time as there are."""
        self.options = options
        self.window += _LARGE_WINDOW - self.capacity
        self.capacity = _LARGE_WINDOW

    # It ends.

    def client_closed(self) -> None:
        """What was sent may still reach the broker."""
        self.alive = False
        rng = self.network.rng
        if rng.random() < 0.5:
            self._leave_broker()
        else:
            self.network.time.after(0.5 * rng.random(), self._leave_broker)

    def _leave_broker(self) -> None:
        if self.open_to_broker:
            self.open_to_broker = False
            self._frames.clear()
            self.broker.disconnected(self)

    def cut(self, *, lose_sent: bool, told_after: float = 0.0) -> None:
        """Reset the connection. `lose_sent`: what is on its way to the broker is lost; else only
        the answers are. The client sees the reset after `told_after` seconds."""
        self.alive = False
        if lose_sent:
            self._leave_broker()
        else:
            self.network.time.after(2.0, self._leave_broker)
        self.network.time.after(told_after, self._tell_reset)

    def _tell_reset(self) -> None:
        self.socket.reset = True
        self.network.stirred = True

    def fall_silent(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        self.alive = False
        self.network.time.after(2.0, self._leave_broker)


def _frames(received: bytearray) -> list[bytes]:
    """Take the whole frames out of `received`, without their sizes."""
    if len(received) >= 4 and _SIZE.unpack_from(received)[0] == len(received) - 4:
        found = [bytes(memoryview(received)[4:])]
        received.clear()
        return found
    found = []
    at = 0
    while len(received) - at >= 4:
        (size,) = _SIZE.unpack_from(received, at)
        if len(received) - at - 4 < size:
            break
        found.append(bytes(received[at + 4 : at + 4 + size]))
        at += 4 + size
    if at:
        del received[:at]
    return found


class SimulatedPoller:
    """A `Poller` over simulated sockets: waiting runs the events of the simulated world."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._time = network.time
        self._masks: dict[int, int] = {}
        self._woken = False

    def register(self, descriptor: int, mask: int) -> None:
        assert descriptor not in self._masks
        self._masks[descriptor] = mask

    def modify(self, descriptor: int, mask: int) -> None:
        assert descriptor in self._masks
        self._masks[descriptor] = mask

    def unregister(self, descriptor: int) -> None:
        del self._masks[descriptor]

    def wake(self) -> None:
        self._woken = True

    def descriptor(self) -> None:
        """No system can watch it: the simulated worker calls `wait`."""

    def select(self, timeout: float) -> list[tuple[int, int]]:
        ready = self._wait(timeout)
        self._woken = False
        if len(ready) > 1:
            self._network.rng.shuffle(ready)
        return ready

    def wait(self, timeout: float) -> bool:
        """Wait as another poller that watches this one. Return whether `select` has something."""
        return bool(self._wait(timeout)) or self._woken

    def _wait(self, timeout: float) -> list[tuple[int, int]]:
        time = self._time
        time.run_until(time.monotonic() + _TURN_S)
        until = time.monotonic() + max(0.0, timeout)
        self._network.stirred = True
        while True:
            # Looking at all sockets after each event would take as long as the events.
            ready = self._ready() if self._network.stirred else []
            self._network.stirred = False
            if ready or self._woken:
                return ready
            if time.next_at() > until:
                time.run_until(until)
                return ready
            time.run_next()

    def _ready(self) -> list[tuple[int, int]]:
        ready: list[tuple[int, int]] = []
        sockets = self._network.sockets
        for descriptor, mask in self._masks.items():
            each = sockets[descriptor]
            now = 0
            if each.readable:
                now = READ
            if mask & WRITE and each.writable:
                now |= WRITE
            if now:
                ready.append((descriptor, now))
        return ready

    def close(self) -> None:
        self._masks.clear()
