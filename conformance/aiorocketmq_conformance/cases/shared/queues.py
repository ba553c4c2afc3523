"""Reading a queue by offset over either protocol, so that one case judges both."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import DEFAULT_TIMEOUT, EXTENSION, Body, case
from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.probe.queues import get_offset, pull, query_offset, queue_of, update_offset
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import number, response_text
from aiorocketmq_conformance.probe.requests import message_id
from aiorocketmq_conformance.tolerances import PROMPT, Window, empty_poll_window

PULL = ("pull",)
REMOTING = ("remoting",)
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Page:
    """The result of one pull."""

    outcome: str
    """`found`, `nothing`, or `illegal` for an offset outside of the queue."""
    texts: tuple[str, ...]
    ids: tuple[str, ...]
    tags: tuple[str, ...]
    next_offset: int | None
    at: float
    """When the messages, or the empty answer, arrived."""
    took: float


@dataclass(frozen=True, slots=True)
class Stored:
    """One message that the server has stored."""

    id: str
    acked_at: float
    """When the receipt arrived, seconds of the case's clock."""


class Reader(ABC):
    """A client that reads the one queue of a fresh topic, and sends to it."""

    def __init__(self, fixture: Fixture, topic: str, group: str) -> None:
        self.fixture = fixture
        self.topic = topic
        self.group = group
        self._sent = 0

    async def send(self, count: int, *, tag: str | None = None) -> list[Stored]:
        """Send `count` messages, `m0` and so on, one after the other."""
        sent = [await self.send_one(f"m{n}", tag) for n in range(count)]
        self._sent += count
        await self.wait_visible(self._sent)
        return sent

    @abstractmethod
    async def send_one(self, text: str, tag: str | None = None) -> Stored:
        """Send one message; AssertionError unless it is taken."""

    @abstractmethod
    async def wait_visible(self, count: int) -> None:
        """Wait until `count` messages are visible: on some servers a moment after the receipt."""

    @abstractmethod
    async def pull(self, offset: int, *, batch: int = 32, poll: float = 5.0, tag: str = "*") -> Page:
        """Read from `offset`."""

    @abstractmethod
    async def committed(self) -> int | None:
        """Return the committed offset; None if there is none."""

    @abstractmethod
    async def commit(self, offset: int) -> None:
        """Commit an offset."""

    @abstractmethod
    async def query_offset(self, policy: str, at: float = 0.0) -> int | None:
        """Return the offset of BEGINNING, END, or TIMESTAMP with `at` in Unix seconds."""

    @abstractmethod
    def empty(self, poll: float) -> Window:
        """Return how long a pull without messages may take."""


class GrpcReader(Reader):
    """A reader over gRPC."""

    def __init__(self, fixture: Fixture, consumer: Consumer) -> None:
        super().__init__(fixture, consumer.topic, consumer.group)
        self._client = consumer.client
        self._queue = queue_of(consumer.topic, 0)

    async def send_one(self, text: str, tag: str | None = None) -> Stored:
        """Send one message; AssertionError unless it is taken."""
        (sent,) = await self.fixture.send(self.topic, text, tag=tag)
        return Stored(sent.id, sent.acked_at)

    async def wait_visible(self, count: int) -> None:
        """Return at once: receipts are sent when messages are visible."""

    async def pull(self, offset: int, *, batch: int = 32, poll: float = 5.0, tag: str = "*") -> Page:
        """Read from `offset`."""
        answer = await pull(
            self._client, self.group, self._queue, offset, batch=batch, poll=poll, expression=tag
        )
        deliveries = answer.deliveries
        outcome = "found" if deliveries else "nothing"
        if code_name(answer.code) == "ILLEGAL_OFFSET":
            outcome = "illegal"
        return Page(
            outcome,
            tuple(one.text for one in deliveries),
            tuple(one.id for one in deliveries),
            tuple(one.message.system_properties.tag for one in deliveries),
            answer.next_offset,
            deliveries[0].at if deliveries else answer.ended,
            answer.took,
        )

    async def committed(self) -> int | None:
        """Return the committed offset; None if there is none."""
        answer = await get_offset(self._client, self.group, self._queue)
        code = code_of(answer)
        assert code in {"OK", "OFFSET_NOT_FOUND"}, f"GetOffset was answered with {code}"
        return answer.offset if code == "OK" else None

    async def commit(self, offset: int) -> None:
        """Commit an offset."""
        answer = await update_offset(self._client, self.group, self._queue, offset)
        assert answer.status.code == pb.Code.OK, f"UpdateOffset was answered with {code_of(answer)}"

    async def query_offset(self, policy: str, at: float = 0.0) -> int | None:
        """Return the offset of BEGINNING, END, or TIMESTAMP with `at` in Unix seconds."""
        moment = at if policy == "TIMESTAMP" else None
        answer = await query_offset(self._client, self._queue, policy, at=moment)
        assert answer.status.code == pb.Code.OK, f"QueryOffset was answered with {code_of(answer)}"
        return answer.offset

    def empty(self, poll: float) -> Window:
        """Return how long a pull without messages may take."""
        return empty_poll_window(self.fixture.target, poll)


_OUTCOMES = {
    ResponseCode.SUCCESS: "found",
    ResponseCode.PULL_NOT_FOUND: "nothing",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "nothing",
    ResponseCode.PULL_OFFSET_MOVED: "illegal",
}


class RemotingReader(Reader):
    """A reader over the classic protocol."""

    def __init__(self, fixture: Fixture, probe: RemotingProbe, topic: str, group: str) -> None:
        super().__init__(fixture, topic, group)
        self.probe = probe

    async def send_one(
        self, text: str, tag: str | None = None, properties: Mapping[str, str] = NO_PROPERTIES
    ) -> Stored:
        """Send one message; AssertionError unless it is taken."""
        properties = {**properties, "UNIQ_KEY": message_id(), **({} if tag is None else {"TAGS": tag})}
        await self.fixture.send_over(self.probe, self.topic, text.encode(), properties)
        return Stored(properties["UNIQ_KEY"], self.fixture.clock.now())

    async def wait_visible(self, count: int) -> None:
        """Query the end of the queue until it is reached."""
        clock = self.fixture.clock
        until = clock.now() + PROMPT
        while (await self.query_offset("END") or 0) < count and clock.now() < until:
            await clock.sleep(0.1)

    async def pull(self, offset: int, *, batch: int = 32, poll: float = 5.0, tag: str = "*") -> Page:
        """Read from `offset`."""
        answer = await self.probe.pull(
            self.topic, self.group, offset, batch=batch, poll=poll, filter_text=FilterText(tag)
        )
        properties = [record.properties() for record in answer.records]
        return Page(
            _OUTCOMES.get(ResponseCode(answer.code), answer.name),
            tuple(record.body.decode() for record in answer.records),
            tuple(each.get("UNIQ_KEY", "") for each in properties),
            tuple(each.get("TAGS", "") for each in properties),
            answer.next_offset,
            answer.ended,
            answer.ended - answer.started,
        )

    async def join(self) -> None:
        """Become a member of the group."""
        await self.probe.join(self.group, self.topic)

    async def leave(self) -> None:
        """Leave the group."""
        await self.probe.leave(self.group, self.topic)

    async def committed(self) -> int | None:
        """Return the committed offset; None if there is none."""
        answer = await self.probe.committed(self.topic, self.group)
        allowed = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        assert answer.code in allowed, f"the offset query was answered with {response_text(answer)}"
        return number(answer, "offset") if answer.code == ResponseCode.SUCCESS else None

    async def commit(self, offset: int) -> None:
        """Commit an offset."""
        answer = await self.probe.commit(self.topic, self.group, offset)
        assert answer.code == ResponseCode.SUCCESS, f"the commit was answered with {response_text(answer)}"

    async def query_offset(self, policy: str, at: float = 0.0) -> int | None:
        """Return the offset of BEGINNING, END, or TIMESTAMP with `at` in Unix seconds."""
        if policy == "TIMESTAMP":
            return await self.probe.offset_at(self.topic, at)
        end = RequestCode.GET_MAX_OFFSET if policy == "END" else RequestCode.GET_MIN_OFFSET
        return await self.probe.end(self.topic, end)

    def empty(self, poll: float) -> Window:
        """Return how long a pull without messages may take."""
        usual = empty_poll_window(self.fixture.target, poll)
        return Window(usual.low, usual.high + self.fixture.number("hold.late"))


class Wire(Protocol):
    """Opens a reader over one protocol."""

    async def __call__(
        self, fixture: Fixture, *, topic: str | None = None, group: str | None = None
    ) -> Reader:
        """Return a reader of a topic with one queue in a group; fresh ones unless they are named."""


async def over_grpc(fixture: Fixture, *, topic: str | None = None, group: str | None = None) -> Reader:
    """Return a reader over gRPC."""
    topic = topic or await fixture.topic(1)
    return GrpcReader(fixture, await fixture.consumer(topic, group=group, prime=False))


async def over_remoting(
    fixture: Fixture, *, topic: str | None = None, group: str | None = None, client_id: str | None = None
) -> RemotingReader:
    """Return a reader over the classic protocol."""
    topic = topic or await fixture.topic(1)
    group = group or await fixture.group()
    return RemotingReader(fixture, fixture.member(client_id), topic, group)


async def trim(reader: Reader) -> None:
    """Delete all messages of the reader's queue, and send one that stays; AssertionError if that is not done in
    time."""
    target, clock = reader.fixture.target, reader.fixture.clock
    begin = await reader.query_offset("END")
    await target.admin.expire_stored()
    # Observed on 4.9.7: the beginning of an empty queue does not move.
    await reader.send(1)
    await target.admin.delete_expired()
    until = clock.now() + target.number("trim.high")
    while (beginning := await reader.query_offset("BEGINNING")) != begin:
        assert clock.now() < until, f"the queue begins at {beginning}, not at {begin}"
        await clock.sleep(0.5)


def on_both_wires(
    case_id: str,
    *,
    rules: Sequence[str],
    remoting_rules: Sequence[str] = (),
    needs: Sequence[str] = (),
    timeout: float = DEFAULT_TIMEOUT,
    params: Mapping[str, object] | None = None,
) -> Callable[[Body], Body]:
    """Declare the decorated function as a case over gRPC, and as one over remoting whose id ends in `[remoting]`.

    It is called as `function(fixture, wire)`, with `params` as `function(fixture, wire, value)` for each.
    """
    labelled = [(f"{label}", (value,)) for label, value in params.items()] if params else [("", ())]

    def declare(function: Body) -> Body:
        claim = inspect.getdoc(function) or ""
        for label, values in labelled:
            for wire, own, sources, mark in (
                (over_grpc, PULL, rules, ""),
                (over_remoting, REMOTING, (*rules, *remoting_rules), "remoting"),
            ):
                name = ",".join(part for part in (mark, label) if part)
                run = partial(_on_wire, function, wire, values)
                run.__doc__ = claim.replace("{}", label) + (" Over remoting." if mark else "")
                case(
                    f"{case_id}[{name}]" if name else case_id,
                    rules=sources,
                    level=EXTENSION,
                    needs=(*own, *needs),
                    timeout=timeout,
                )(run)
        return function

    return declare


async def _on_wire(function: Body, wire: Wire, values: tuple[object, ...], fixture: Fixture) -> None:
    await function(fixture, wire, *values)
