"""A network in memory between clients and brokers: ordered connections with delays, and faults that a world describes.

Bytes of one connection stay in order, as in TCP; connections overtake one another. What a fault does to a connection is
what a network can do to one: hold everything back for a while (partition), lose everything from some moment on
(half-open), end it (cut). Losing single answers and sending requests twice is what proxies do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol
from zlib import crc32

import grpc
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.failures import failure_of
from aiorocketmq._transport.interface import (
    Diagnosis,
    DuplexStream,
    Failure,
    Metadata,
    Take,
    TransportError,
)
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake.edge.memory_port import Exchange, MemoryHost, MemoryPort

from tools.simulation.loop import Process, VirtualLoop

CONNECTING = 20.0
"""Seconds after which an attempt to connect through a partition fails."""
ANSWERED = (pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND)
SOON = 0.6
"""Seconds after a first failure within which a poll is tried again: a client pauses for 0.2 s."""
UNNOTICED = 60.0
"""Seconds after which a broker gives up a connection on which nothing arrives."""
GAP = 1e-6
"""Seconds between two pieces of one connection that would arrive at the same moment."""


@dataclass(slots=True)
class Weather:
    """The faults that act on the network now; all of them by the name of a client, or `*` for all."""

    held: set[tuple[str, str]] = field(default_factory=set)
    """Partitions: client and direction, `up` to brokers or `down` from them."""
    lost: dict[str, float] = field(default_factory=dict)
    """The chance that the response to a call is lost."""
    doubled: dict[str, float] = field(default_factory=dict)
    """The chance that a request arrives twice."""
    slow: dict[str, float] = field(default_factory=dict)
    """Factor of all delays."""


class SlowRetry(NamedTuple):
    """A poll that failed, the first one after a success, and the next one of the same queue."""

    client: str
    begun: float
    failed: float
    next: float


class Door(Protocol):
    """Observes what passes the door of a broker: requests when they arrive, responses when they leave."""

    def begin(self, served: Served, payload: bytes) -> None:
        """A request has arrived; streams have several."""

    def respond(self, served: Served, payload: bytes) -> None:
        """A response leaves."""

    def end(self, served: Served) -> None:
        """A call has ended at the broker."""


class Network:
    """All connections of one world."""

    def __init__(self, loop: VirtualLoop, random: Random, door_of: Callable[[str], Door]) -> None:
        """`door_of` returns the observer of the broker at an address."""
        self.loop = loop
        self.random = random
        self.host = MemoryHost()
        self.weather = Weather()
        self.connections: list[Connection] = []
        self.trace: list[str] = []
        """One line for each piece that was sent or arrived."""
        self.digest = 0
        """Checksum of all lines."""
        self.is_traced = False
        self.slow_retries: list[SlowRetry] = []
        """Polls that began late after a first failure."""
        self.door_of = door_of
        self.outside = copy_context()
        self._ports = itertools.count(40_000)

    def note(self, text: str, payload: bytes = b"") -> None:
        """Add a line to the trace."""
        # Protobuf writes maps in an order of its own, hence a sum.
        line = f"{self.loop.elapsed:12.6f} {text}: {len(payload)} bytes, {sum(payload)}"
        self.digest = crc32(line.encode(), self.digest)
        if self.is_traced:
            self.trace.append(line)

    def connect(self, client: str, address: str) -> Connection:
        """Make a connection of a client."""
        connection = Connection(self, client, address, f"ipv4:10.1.0.1:{next(self._ports)}")
        self.connections.append(connection)
        return connection

    def of(self, client: str) -> list[Connection]:
        """Return the connections of a client, or of all (`*`)."""
        return [each for each in self.connections if client in ("*", each.client)]

    def flush(self) -> None:
        """Deliver what was held back by partitions that are over."""
        for connection in self.connections:
            connection.up.flush()
            connection.down.flush()

    def value(self, table: dict[str, float], client: str, usual: float) -> float:
        """Return a number of the weather for a client."""
        return table.get(client, table.get("*", usual))


class Pipe:
    """One direction of a connection: what is sent arrives later and in order."""

    def __init__(self, network: Network, client: str, direction: str) -> None:
        self._network = network
        self._client = client
        self._direction = direction
        self._last = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self.is_dead = False
        """Nothing arrives any more, and nobody is told."""

    @property
    def is_held(self) -> bool:
        """Whether a partition holds everything back."""
        held = self._network.weather.held
        return (self._client, self._direction) in held or ("*", self._direction) in held

    def send(self, arrive: Callable[[], None]) -> None:
        """Let `arrive` happen at the other end."""
        network = self._network
        if self.is_dead:
            return
        if self._waiting or self.is_held:
            self._waiting.append(arrive)
            return
        delay = network.random.uniform(0.0002, 0.004)
        if network.random.random() < 0.02:
            delay += network.random.uniform(0.0, 0.2)
        delay *= network.value(network.weather.slow, self._client, 1.0)
        self._last = max(self._last + GAP, network.loop.elapsed + delay)
        network.loop.call_at(self._last, self._arrive, arrive, context=network.outside)

    def _arrive(self, arrive: Callable[[], None]) -> None:
        if self.is_dead:
            return
        if self.is_held:
            # The partition began while it was under way.
            self._waiting.append(arrive)
            return
        arrive()

    def flush(self) -> None:
        """Send what waits, if nothing holds it back any more."""
        if self._waiting and not self.is_held:
            waiting, self._waiting = self._waiting, deque()
            for arrive in waiting:
                self.send(arrive)


class Connection:
    """One connection of a client to a broker, with its calls."""

    def __init__(self, network: Network, client: str, address: str, peer: str) -> None:
        self.network = network
        self.client = client
        self.address = address
        self.peer = peer
        self.up = Pipe(network, client, "up")
        self.down = Pipe(network, client, "down")
        self.calls: set[Call] = set()
        """What the client waits for."""
        self.served: dict[Call, asyncio.Task[None]] = {}
        """What the broker works on."""
        self.port: MemoryPort | None = None
        self.is_broken = False

    async def open(self) -> None:
        """Connect; TransportError if nothing listens, or nobody answers in time."""
        network = self.network
        arrived: asyncio.Future[bool] = network.loop.create_future()

        def accept() -> None:
            self.port = network.host.listening(self.address)
            is_accepted = self.port is not None
            self.down.send(lambda: None if arrived.done() else arrived.set_result(is_accepted))

        self.up.send(accept)
        try:
            async with asyncio.timeout(CONNECTING):
                if await arrived:
                    return
            text = "failed to connect to all addresses: connection refused"
        except TimeoutError:
            text = "failed to connect to all addresses: timed out"
        self.break_now()
        raise TransportError(Failure.UNREACHABLE, text, was_sent=False)

    def begin(self, call: Call, payload: bytes | None, *, is_double: bool = False) -> None:
        """Send a new call, and its request unless it follows."""

        def arrive() -> None:
            port = self.network.host.listening(self.address)
            if port is None or port is not self.port:
                self.break_now()
                return
            served = Served(self, call, is_double=is_double)
            task = port.serve(served)
            self.served[call] = task
            task.add_done_callback(lambda _: self._ended(call, task, served))
            if payload is not None:
                served.arrive(payload)
            call.served.append(served)

        self.network.note(f"{self.client} > {call.name} {call.number}", payload or b"")
        self.up.send(arrive)

    def _ended(self, call: Call, task: asyncio.Task[None], served: Served) -> None:
        if self.served.get(call) is task:
            del self.served[call]
        served.close()

    def abandon(self, call: Call) -> None:
        """The client does not wait for a call any more."""
        self.calls.discard(call)

        def arrive() -> None:
            task = self.served.get(call)
            if task is not None:
                task.cancel()

        self.up.send(arrive)

    def half_open(self) -> None:
        """Lose everything from now on; neither side knows, the broker for a minute."""
        self.up.is_dead = self.down.is_dead = True
        self.network.loop.call_later(UNNOTICED, self.drop_served, context=self.network.outside)

    def break_now(self) -> None:
        """End everything on the connection: the client's calls fail, the broker's are cancelled."""
        if self.is_broken:
            return
        self.is_broken = True
        is_known = not self.up.is_dead
        self.up.is_dead = self.down.is_dead = True
        self.network.connections.remove(self)
        for call in sorted(self.calls, key=lambda each: each.number):
            call.fail(TransportError(Failure.UNREACHABLE, "Connection reset by peer", was_sent=True))
        self.calls.clear()
        if is_known:
            self.drop_served()

    def drop_served(self) -> None:
        """The broker notices that the client is gone."""
        for _, task in sorted(self.served.items(), key=lambda each: each[0].number):
            task.cancel()


class Served(Exchange):
    """One call at the broker."""

    def __init__(self, connection: Connection, call: Call, *, is_double: bool) -> None:
        self.path, self.metadata, self.peer = call.path, call.metadata, connection.peer
        self.deadline = call.deadline
        self._connection = connection
        self.name = call.name
        self._call = call
        self._door = connection.network.door_of(connection.address)
        self._is_double = is_double
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_over = False
        network = connection.network
        chance = network.value(network.weather.lost, connection.client, 0.0)
        self._is_lost = not call.is_duplex and network.random.random() < chance

    def arrive(self, payload: bytes | None) -> None:
        """A request has arrived, or the end of them."""
        if payload is not None:
            self._door.begin(self, payload)
        self._requests.put_nowait(payload)

    async def read(self) -> bytes | None:
        """Return the next request; None if there is none any more."""
        return await self._requests.get()

    def write(self, payload: bytes) -> None:
        """Send one response."""
        if self._is_over:
            return
        self._door.respond(self, payload)
        self._send(payload, lambda: self._call.take(payload))

    def end(self, status: str, text: str) -> None:
        """End the call with a gRPC status, by name."""
        if self._is_over:
            return
        self._is_over = True
        self._door.end(self)
        self._send(status.encode(), lambda: self._call.finish(status, text))

    def close(self) -> None:
        """The broker has stopped working on it."""
        if not self._is_over:
            self._is_over = True
            self._door.end(self)

    def _send(self, payload: bytes, arrive: Callable[[], None]) -> None:
        connection, call = self._connection, self._call
        connection.network.note(f"{connection.client} < {call.name} {call.number}", payload)
        if not (self._is_double or self._is_lost):
            connection.down.send(arrive)


class Call:
    """One call at the client."""

    def __init__(self, number: int, path: str, metadata: Metadata, deadline: float | None) -> None:
        self.number = number
        self.path = path
        self.name = path.rpartition("/")[2]
        self.metadata: Sequence[tuple[str, str]] = tuple(metadata)
        self.deadline = deadline
        self.is_duplex = deadline is None
        self.served: list[Served] = []
        self._responses: asyncio.Queue[bytes | TransportError | None] = asyncio.Queue()
        self._is_over = False

    def take(self, payload: bytes) -> None:
        """A response has arrived."""
        if not self._is_over:
            self._responses.put_nowait(payload)

    def finish(self, status: str, text: str) -> None:
        """The end has arrived."""
        if status == "OK":
            self.fail(None)
        else:
            failure = failure_of(grpc.StatusCode[status])
            self.fail(TransportError(failure, text or status, was_sent=True))

    def fail(self, error: TransportError | None) -> None:
        """End it, with an error or without."""
        if not self._is_over:
            self._is_over = True
            self._responses.put_nowait(error)

    async def response(self) -> bytes | None:
        """Return the next response, None at the end; TransportError if it failed."""
        item = await self._responses.get()
        if isinstance(item, TransportError):
            self._responses.put_nowait(item)
            raise item
        if item is None:
            self._responses.put_nowait(None)
        return item


class MemoryTransport:
    """Implements the client's `Transport` on a network in memory; belongs to one process."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process
        self._client = process.name
        self._connections: dict[Endpoint, Connection] = {}
        self._opening: dict[Endpoint, asyncio.Lock] = {}
        self._numbers = itertools.count()
        self._failures: dict[bytes, tuple[int, float, float]] = {}
        """Failed polls since the last one that succeeded, begin and end of the last one, by queue."""
        self._is_closed = False

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        """Make a call with one answer, within `timeout` seconds."""
        responses: list[bytes] = []
        await self.server_stream(endpoint, path, payload, metadata, timeout, responses.append)
        if not responses:
            raise TransportError(Failure.INTERNAL, "a call ended without a response", was_sent=True)
        return responses[0]

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        """Make a call with many answers, all within `timeout` seconds; each is passed to `take` when it arrives."""
        network = self._network
        begun = network.loop.elapsed
        deadline = begun + timeout
        call, connection, first = None, None, b""
        queue = self._polled(payload) if path.endswith("/ReceiveMessage") else b""
        try:
            async with asyncio.timeout(timeout):
                connection = await self._connection(endpoint)
                call = self._call(path, metadata, deadline)
                connection.calls.add(call)
                connection.begin(call, payload)
                if network.random.random() < network.value(network.weather.doubled, self._client, 0.0):
                    connection.begin(call, payload, is_double=True)
                while (response := await call.response()) is not None:
                    first = first or response
                    take(response)
            connection.calls.discard(call)
            if queue and first and pb.ReceiveMessageResponse.FromString(first).status.code in ANSWERED:
                self._failures.pop(queue, None)
            if path.endswith("/QueryAssignment"):
                # Queues of brokers that are away may not be assigned for a while.
                for each, (count, began, failed) in self._failures.items():
                    self._failures[each] = count + 1, began, failed
        except TimeoutError:
            self._give_up(connection, call)
            self._poll_failed(queue, begun)
            raise TransportError(Failure.TIMEOUT, "Deadline Exceeded", was_sent=True) from None
        except BaseException as error:
            self._give_up(connection, call)
            if isinstance(error, TransportError):
                self._poll_failed(queue, begun)
            raise

    def _polled(self, payload: bytes) -> bytes:
        """Return the queue of a poll that begins; it should be soon if the last one has failed."""
        queue = pb.ReceiveMessageRequest.FromString(payload).message_queue.SerializeToString()
        count, begun, failed = self._failures.get(queue, (0, 0.0, 0.0))
        if count == 1 and self._network.loop.elapsed - failed > SOON:
            retry = SlowRetry(self._client, begun, failed, self._network.loop.elapsed)
            self._network.slow_retries.append(retry)
        return queue

    def _poll_failed(self, queue: bytes, begun: float) -> None:
        if queue:
            count, _, _ = self._failures.get(queue, (0, 0.0, 0.0))
            self._failures[queue] = count + 1, begun, self._network.loop.elapsed

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        """Open a stream without a deadline; errors of opening show at the first read or write."""
        connection = await self._connection(endpoint)
        call = self._call(path, metadata, None)
        connection.calls.add(call)
        connection.begin(call, None)
        return _Stream(connection, call)

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Drop the connection to `endpoint`, so that the next call opens a new one."""
        connection = self._connections.pop(endpoint, None)
        if connection is not None:
            self._network.loop.call_later(grace, connection.break_now, context=self._network.outside)

    async def diagnose(self, endpoint: Endpoint, *, step: float) -> Diagnosis:
        """Diagnose why `endpoint` cannot be reached."""
        return Diagnosis("is not reachable in this simulation", is_final=False)

    async def close(self) -> None:
        """Close all connections; calls in flight raise TransportError."""
        self._is_closed = True
        for connection in tuple(self._connections.values()):
            connection.break_now()

    def _call(self, path: str, metadata: Metadata, deadline: float | None) -> Call:
        return Call(next(self._numbers), path, metadata, deadline)

    def _give_up(self, connection: Connection | None, call: Call | None) -> None:
        if connection is not None and call is not None and call in connection.calls:
            connection.abandon(call)

    async def _connection(self, endpoint: Endpoint) -> Connection:
        lock = self._opening.setdefault(endpoint, asyncio.Lock())
        async with lock:
            if self._is_closed or self._process.is_dead:
                raise TransportError(Failure.UNREACHABLE, "the connection was closed", was_sent=False)
            connection = self._connections.get(endpoint)
            if connection is None or connection.is_broken:
                connection = self._network.connect(self._client, str(endpoint.addresses[0]))
                await connection.open()
                self._connections[endpoint] = connection
            return connection


class _Stream:
    """One stream open in both directions."""

    def __init__(self, connection: Connection, call: Call) -> None:
        self._connection = connection
        self._call = call
        self._is_closed = False

    async def write(self, payload: bytes) -> None:
        """Send one message."""
        if self._is_closed or self._connection.is_broken:
            raise TransportError(Failure.UNREACHABLE, "the stream has ended", was_sent=False)
        call = self._call
        self._connection.network.note(f"{self._connection.client} > {call.name} {call.number}", payload)

        def arrive() -> None:
            for served in call.served:
                served.arrive(payload)

        self._connection.up.send(arrive)

    async def read(self) -> bytes | None:
        """The next message, or None after a regular end."""
        return await self._call.response()

    async def close(self) -> None:
        """End the stream from this side."""
        if not self._is_closed:
            self._is_closed = True
            self._call.fail(None)
            self._connection.abandon(self._call)
