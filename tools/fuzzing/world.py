"""A broker without a port, whose handlers are called as gRPC would call them, and what must hold after every call."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_conformance.probe.signing import signed
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import User
from aiorocketmq_fake.core.values.codes import Code, Permission, TopicType
from aiorocketmq_fake.core.values.model import GroupConfig, TopicConfig
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.clock import ManualClock
from aiorocketmq_fake.edge.data_plane import messaging_service
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.events import Events
from aiorocketmq_fake.edge.faults import Faults
from aiorocketmq_fake.edge.peers import PeerBroker, PeerBrokers
from aiorocketmq_fake.edge.telemetry import Telemetry
from google.protobuf.message import Message
from grpc import aio

from tools.fuzzing.codes import allowed
from tools.fuzzing.requests import Kind, Maker

__all__ = ["Broken", "World"]

# Real seconds after which a call that must have ended is stuck.
PATIENCE = 20.0
START = 1_800_000_000.0
TYPES = {
    "normal": TopicType.NORMAL,
    "fifo": TopicType.FIFO,
    "delay": TopicType.DELAY,
    "transaction": TopicType.TRANSACTION,
    "readonly": TopicType.NORMAL,
    "ns%normal": TopicType.NORMAL,
    "lite": TopicType.LITE,
}
CLIENTS = ("client-1", "client-2", "client-3")
# What stands for a decision that is no refusal: everything else must leave the state alone.
DECIDED = frozenset({Code.OK, Code.MULTIPLE_RESULTS, Code.MESSAGE_NOT_FOUND})
# How often each is called; the others once. Without settings, messages and deliveries nothing deep is reached.
OFTEN = {"SendMessage": 5, "ReceiveMessage": 6, "Telemetry": 5, "AckMessage": 3, "ChangeInvisibleDuration": 3}
KINDS = (Kind.VALID, Kind.VALID, Kind.VALID, Kind.DAMAGED, Kind.DAMAGED, Kind.RANDOM, Kind.NOISE)
HEADERS = {
    "x-mq-language": ("PYTHON", "JAVA", "", "KLINGON"),
    "x-mq-client-version": ("5.0.8", "", "5.0.2", "\u00ff"),
    "authorization": ("", "junk", "MQv2-HMAC-SHA1 Credential=x, Signature=00"),
}


READER = User("reader", "reader-secret", publish=(), subscribe=("normal", "fi*"), groups=("group",))
USERS = (User("owner", "owner-secret"), READER)
# Who signs: mostly who may do everything, now and then nobody, or somebody with a wrong secret.
SIGNERS = (*USERS[:1] * 8, READER, User("owner", "wrong"), User("ghost", "secret"), None)


class Broken(AssertionError):
    """A call broke a promise; the text says which call, and of which seed."""


@dataclass
class Call:
    """What gRPC would show of one call, and what the handler did to it."""

    metadata: tuple[tuple[str, str], ...]
    remaining: float | None
    incoming: list[bytes] = field(default_factory=list)
    written: list[Message] = field(default_factory=list)
    status: tuple[grpc.StatusCode, str] | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the headers."""
        return self.metadata

    def peer(self) -> str:
        """Return the caller's address."""
        return "ipv4:127.0.0.1:5"

    def time_remaining(self) -> float | None:
        """Return the time to the deadline."""
        return self.remaining

    def set_trailing_metadata(self, metadata: object) -> None:
        """Take what goes with the end of the call."""

    async def abort(self, code: grpc.StatusCode, text: str = "") -> NoReturn:
        """End the call."""
        self.status = (code, text)
        raise aio.AbortError("the call was ended")

    async def write(self, frame: Message) -> None:
        """Take a frame of the answer."""
        # As on the wire: what cannot be serialized must not be answered.
        frame.SerializeToString()
        self.written.append(frame)

    async def read(self) -> Any:
        """Hand over the next frame; Any: bytes, or gRPC's mark of the end."""
        return self.incoming.pop(0) if self.incoming else aio.EOF


class World:
    """One broker, and requests made for it. Everything depends on the random source alone."""

    def __init__(
        self,
        profile: Profile,
        rng: random.Random,
        core: Callable[..., Broker] = Broker,
        *,
        users: bool = False,
    ) -> None:
        """Make a broker; with `users` it asks who calls, and most calls are signed by somebody."""
        self._users = users
        self.codes: Counter[tuple[str, str]] = Counter()
        """Answers so far, by method and code."""
        self._rng = rng
        self._maker = Maker(rng)
        self._profile = profile
        self._core = core(profile, now=START, rng=random.Random(0))
        self._driver = Driver(self._core, ManualClock(START), Events())
        address = Address("127.0.0.1", 8081)
        faults = Faults()
        peers = PeerBrokers()
        peers.join(PeerBroker(self._driver, address, lambda: True))
        telemetry = Telemetry(self._driver, faults, address)
        service = messaging_service(self._driver, faults, telemetry, address, peers)
        # Any: gRPC's handlers are typed for its own calls.
        self._service: Any = service
        served = sorted(profile.served_rpcs & set(METHODS))
        self._methods = [name for name in served for _ in range(OFTEN.get(name, 1))]
        self._picture: object = None
        self._waiting: set[asyncio.Task[None]] = set()
        self._furnish()

    def _furnish(self) -> None:
        for name, kind in TYPES.items():
            permission = Permission.READ if name == "readonly" else Permission.READ_WRITE
            config = TopicConfig(name, type=kind, read_queues=2, write_queues=2, permission=permission)
            self._core.create_topic(config, now=START)
        self._core.create_group(GroupConfig("group", max_attempts=3), now=START)
        self._core.create_group(GroupConfig("ordered", ordered=True), now=START)
        self._core.create_group(GroupConfig("ns%group"), now=START)
        self._core.create_group(GroupConfig("light", lite_bind_topic="lite", lite_quota=3), now=START)
        for user in USERS if self._users else ():
            self._core.put_user(user, now=START)

    async def step(self) -> None:
        """Make one call, or let time pass; Broken where a promise does not hold."""
        if self._rng.random() < 0.02:
            self._picture = None
            self._driver.reach(self._driver.clock.now() + self._rng.choice((0.5, 5.0, 31.0, 200.0)))
            await self._let_polls_end()
            return
        method = self._rng.choice(self._methods)
        if method == "NotifyClientTermination" and self._rng.random() < 0.7:
            method = "Heartbeat"
        kind = self._rng.choice(KINDS)
        payload = self._maker.request(method, kind)
        call = Call(self._headers(), self._rng.choice((None, 3.0, 30.0, 30.0, 30.0, 30.0)))
        # What was refused has changed nothing: the picture taken before it is still good.
        before = self._picture if self._picture is not None else self._fingerprint()
        if METHODS[method].server_streaming:
            await self._stream(method, payload, call)
        else:
            await self._unary(method, payload, call)
        self._judge(method, kind, payload, call, before)

    async def end(self) -> None:
        """Let nothing be left that waits; Broken where the broker does no work any more."""
        await self._let_polls_end()
        headers = {"x-mq-client-id": "doctor", "x-mq-language": "PYTHON", **self._signed(USERS[0])}
        call = Call(tuple(headers.items()), 3.0)
        message = pb.Message(topic=pb.Resource(name="normal"), body=b"1")
        message.system_properties.message_id = "last"
        await self._unary("SendMessage", pb.SendMessageRequest(messages=[message]).SerializeToString(), call)
        if [*_codes(call.written)] != [Code.OK]:
            raise Broken(f"an ordinary message is refused in the end: {call.written} {call.status}")

    # Calling

    def _headers(self) -> tuple[tuple[str, str], ...]:
        rng = self._rng
        headers = {"x-mq-client-id": rng.choice(CLIENTS), "x-mq-language": "PYTHON"}
        if rng.random() < 0.1:
            headers["x-mq-client-id"] = rng.choice(("", " ", "somebody", "x" * 5000))
            headers |= {name: rng.choice(values) for name, values in HEADERS.items()}
        elif self._users and (user := rng.choice(SIGNERS)) is not None:
            headers |= self._signed(user)
        return tuple((name, value) for name, value in headers.items() if value)

    def _signed(self, user: User) -> dict[str, str]:
        """Return the headers that prove who calls; empty where nobody asks."""
        made = signed(user.access_key, user.secret, at=self._driver.clock.now()) if self._users else {}
        return {name.replace("_", "-"): value for name, value in made.items()}

    async def _unary(self, method: str, payload: bytes, call: Call) -> None:
        handler = self._handler(method).unary_unary
        try:
            response: Message = await handler(payload, call)
        except aio.AbortError:
            return
        await call.write(response)
        self._maker.memory.learn(method, payload, call.written)

    async def _stream(self, method: str, payload: bytes, call: Call) -> None:
        handler = self._handler(method)
        if METHODS[method].client_streaming:
            call.incoming = [payload]
            running = handler.stream_stream(None, call)
        else:
            running = handler.unary_stream(payload, call)
        task = asyncio.get_running_loop().create_task(self._learn_from(running, method, payload, call))
        if METHODS[method].client_streaming:
            # The client ends its side after one frame, and so must the server.
            await asyncio.wait((task,), timeout=PATIENCE)
        # A handler that has not ended after so many turns of the loop waits for messages.
        for _ in range(4):
            if task.done():
                break
            await asyncio.sleep(0)
        if not task.done():
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
            if len(self._waiting) > 20 or self._rng.random() < 0.1:
                await self._let_polls_end()
            elif self._rng.random() < 0.1:
                task.cancel()
                await asyncio.wait((task,))
        elif not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _learn_from(self, handling: Any, method: str, payload: bytes, call: Call) -> None:
        """Run a handler to its end; a call that it ended itself is no error. Any: gRPC's handlers are not typed."""
        try:
            await handling
        except aio.AbortError:
            return
        self._maker.memory.learn(method, payload, call.written)

    async def _let_polls_end(self) -> None:
        self._driver.end_polls()
        if self._waiting:
            _, late = await asyncio.wait(tuple(self._waiting), timeout=PATIENCE)
            if late:
                raise Broken(f"{len(late)} polls have not ended though their time is over")

    def _handler(self, method: str) -> Any:
        """Return gRPC's handler of a method. Any: as above."""
        return self._service.service(_Details(METHODS[method].path))

    # Judging

    def _fingerprint(self) -> object:
        core = self._core
        totals = core.totals()
        return (
            *(
                core.topics(),
                core.groups(),
                core.clients(),
                core.leases(),
                core.order_records(),
                core.offsets(),
            ),
            (totals.messages, totals.leases, totals.delayed, totals.half),
        )

    def _judge(self, method: str, kind: Kind, payload: bytes, call: Call, before: object) -> None:
        what = f"{method} ({kind.name}) {payload.hex()} {call.metadata}"
        if call.status is not None and "its log says why" in call.status[1]:
            raise Broken(f"{call.status}: {what}")
        codes = [Code(code) for code in _codes(call.written)]
        if call.status is None and not codes and call.written:
            raise Broken(f"an answer without a code: {call.written}: {what}")
        status = call.status[0].name if call.status else ""
        self.codes[method, codes[0].name if codes else status or "(waits)"] += 1
        known = dict(call.metadata).get("authorization", "")
        if self._users and not any(user.access_key in known for user in USERS) and DECIDED & set(codes):
            raise Broken(f"done for somebody unknown: {codes}: {what}")
        if self._users and READER.access_key in known and method == "SendMessage" and Code.OK in codes:
            raise Broken(f"sent by somebody who may only read: {what}")
        denials = {Code.UNAUTHORIZED, Code.FORBIDDEN} if self._users else set()
        if strange := set(codes) - allowed(method, self._profile) - denials:
            raise Broken(f"{strange} is no code of {what}")
        refused = bool(codes) and not DECIDED & set(codes)
        self._picture = None
        if (refused or call.status is not None) and not self._may_change(method, codes):
            after = self._picture = self._fingerprint()
            if after != before:
                raise Broken(
                    f"refused with {codes or call.status}, and yet changed: {_changes(before, after)}: {what}"
                )

    def _may_change(self, method: str, codes: list[Code]) -> bool:
        """Whether the profile's server is known to act although it refuses."""
        if method == "NotifyClientTermination":
            # R2.16.
            return self._profile.illegal_termination_unregisters and Code.ILLEGAL_CONSUMER_GROUP in codes
        # The group is made before the filter is read, and before a lite consumer is refused, as seen on 5.5.0, or the
        # endpoints of an assignment are.
        if method in ("Telemetry", "QueryAssignment", "SyncLiteSubscription"):
            return self._profile.lookups_create_groups
        return method == "ReceiveMessage" and self._profile.auto_create_groups


class _Details:
    """What gRPC tells a service to choose a handler by."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.invocation_metadata = ()


def _codes(frames: Iterable[Any]) -> Iterable[int]:
    """Return the status codes of an answer. Any: each method has its own classes."""
    for frame in frames:
        if "status" in frame.DESCRIPTOR.fields_by_name and frame.HasField("status"):
            yield frame.status.code


def _changes(before: Any, after: Any) -> str:
    """Say what of two fingerprints differs. Any: tuples of tuples."""
    return "; ".join(
        f"{old} became {new}"[:600] for old, new in zip(before, after, strict=True) if old != new
    )
