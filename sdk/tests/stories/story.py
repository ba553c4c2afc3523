"""What clients ask of servers, tell their hooks and give their users, as lines of text that a page keeps.

Each page is a text file beside the tests: a section for each call, each kind of event, and for results; of equal lines
one is kept. Addresses, receipt handles and ids have short names. `STORIES_WRITE=1` writes the pages again: read what
has changed, every line is what applications and servers rely on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import datetime
from difflib import unified_diff
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

from aiorocketmq import RocketMQError
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.message_ids import MessageIds
from aiorocketmq._core.remoting.frame import Frame, FrameReader
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import DuplexStream, Metadata, Take
from aiorocketmq._transport.network import Environment
from aiorocketmq.errors import RefusedError
from aiorocketmq.hooks import (
    ClientEvent,
    ClientIdentity,
    DeliverEvent,
    Event,
    Hook,
    Phase,
    ReceiveEvent,
    TransactionCheckEvent,
)
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker
from google.protobuf import text_format

ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
VARYING = re.compile(
    r'(?<=[ {])(version|platform|port|hostname): ("[^"]*"|\d+)|(?<=\{ )(nonce): "\d+"'
    r'|"version":\d+|ORIGIN_MESSAGE_ID: [^,}]*'
)
POLLED = re.compile(r"(attempt_id[:=] ?)\"?[0-9a-f]{32}\"?|(long_polling_timeout {) seconds: \d+ nanos: \d+")
UNORDERED = ("CommitEvent", "call UPDATE_CONSUMER_OFFSET")
HANDLE = re.compile(r"\b\d+ \d{13} \d+ \d+ \d+ broker-a [\d ]*\d|[A-Za-z0-9_+/-]{40,}=*")


class Story(Hook):
    """The lines of one life, by section."""

    def __init__(self, broker: FakeBroker, seed: int = 1) -> None:
        self._sections: dict[str, dict[str, None]] = {}
        self._names: dict[str, str] = {}
        self._operations: dict[str, str] = {}
        self._open: dict[str, type[Event]] = {}
        self._errors: list[Exception] = []
        self.transport = Overheard(self)
        self.environment = Environment(
            wall=broker.clock.now,
            random=Random(seed),
            host="host",
            process=7,
            message_ids=MessageIds(b"client", seed),
        )

    def observe(self, event: Event) -> None:
        """Keep an event; what goes wrong here is raised by `check`, as clients ignore it."""
        try:
            self._observe(event)
        except Exception as error:
            self._errors.append(error)

    def _observe(self, event: Event) -> None:
        """Check that each operation begins once and ends once."""
        kind, operation = type(event), event.operation
        if isinstance(event, DeliverEvent):
            assert operation is None or self._open[operation] is ReceiveEvent
        elif operation is None:
            assert event.phase is Phase.SINGLE or kind is ClientEvent
        elif event.phase is Phase.INVOKE:
            assert operation not in self._operations
            self._open[operation] = kind
            count = sum(each.startswith(kind.__name__) for each in self._operations.values())
            # How many polls there are depends on time.
            self._operations[operation] = f"{kind.__name__}-{'n' if kind is ReceiveEvent else count + 1}"
        else:
            assert self._open.pop(operation) is kind
        self.add(kind.__name__, event)

    def add(self, section: str, value: object) -> None:
        """Keep a line of a section."""
        self._sections.setdefault(section, {})[self._shortened(self._shown(value))] = None

    def result(self, name: str, value: object) -> None:
        """Keep what a user got, or sees."""
        self.add("results", f"{name}: {self._shown(value)}")

    @contextmanager
    def failing(self, name: str) -> Iterator[None]:
        """Keep the error that the block raises."""
        try:
            yield
        except RocketMQError as error:
            self.result(name, error)
            if error.__cause__ is not None and isinstance(error.__cause__, RocketMQError):
                self.result(f"{name}, because of", error.__cause__)
        else:
            raise AssertionError(f"{name} has not failed")

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Keep what clients log for operators while the block runs."""
        logger, handler = logging.getLogger("aiorocketmq"), _Logged(self)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(before)
            logger.removeHandler(handler)

    def text(self) -> str:
        """Return the page so far. Commits of several queues have no order."""
        return "\n".join(
            f"{section}\n{''.join(f'  {line}{chr(10)}' for line in lines)}"
            for section, kept in sorted(self._sections.items())
            for lines in [sorted(kept) if section in UNORDERED else kept]
        )

    def check(self, page: str) -> None:
        """Compare with the page that is kept."""
        assert (self._errors, self._open) == ([], {})
        path = Path(__file__).with_name(f"{page}.txt")
        if os.environ.get("STORIES_WRITE"):
            path.write_text(self.text(), "utf-8")
        kept = path.read_text("utf-8")
        changes = unified_diff(kept.splitlines(), self.text().splitlines(), "kept", "now", lineterm="", n=0)
        assert not (text := "\n".join(changes)), text

    def _shown(self, value: Any) -> str:
        if isinstance(value, DeliverEvent | TransactionCheckEvent):
            return f"{self._plain(value)} {self._whole(value.message)}"
        if isinstance(value, ReceivedMessage):
            return f"<{value.body!r:.20} attempt {value.attempt}>"
        if isinstance(value, RocketMQError):
            return self._error(value)
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, ClientIdentity):
            return "/".join((value.client_id, value.role.name, value.group or ""))
        if is_dataclass(value) and not isinstance(value, type):
            return self._plain(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return "/".join(map(str, value))
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{key}: {self._shown(each)}' for key, each in value.items())}}}"
        if isinstance(value, tuple | list | frozenset):
            return f"[{', '.join(map(self._shown, value))}]"
        return value if isinstance(value, str) else f"{value!r:.60}"

    def _plain(self, value: Any) -> str:
        """Show the fields of a value, but not those that have no value."""
        shown = [
            f"{each.name}={self._field(value, each.name, content)}"
            for each in fields(value)
            if (content := getattr(value, each.name)) not in (None, False, (), "", 0)
            and (each.name, content) not in (("attempt", 1), ("phase", Phase.SINGLE))
        ]
        return " ".join(shown) if isinstance(value, Event) else f"{type(value).__name__}({' '.join(shown)})"

    def _field(self, owner: object, name: str, content: Any) -> str:
        if name == "operation" and isinstance(owner, Event):
            return self._operations[content]
        return self._shown(content)

    def _whole(self, message: ReceivedMessage) -> str:
        names = sorted({name for name in ReceivedMessage.__slots__ if not name.startswith("_")})
        names += ["endpoint", "born_at", "stored_at", "deliver_at", "lease_ends_at", "receipt_handle"]
        values = [(name, getattr(message, name)) for name in names]
        return " ".join(
            f"{name}={self._shown(value)!s}" for name, value in values if value not in (None, (), {})
        )

    def _error(self, error: RocketMQError) -> str:
        names = ("code", "server_text", "endpoint", "topic", "group", "may_retry", "may_have_taken_effect")
        values = [(name, getattr(error, name)) for name in names]
        shown = [f"{name}={value}" for name, value in values if value not in (None, "", False)]
        if error.request_id:
            shown.append("request_id")
        assert isinstance(error, RefusedError) or str(error) == error.text
        return f"{type(error).__name__}({' '.join(shown)}) {error}"

    def _shortened(self, line: str) -> str:
        line = line.replace("\n", "\\n")
        line = VARYING.sub(
            lambda found: f"{found[1] or found[3] or 'varies'}: …", ADDRESS.sub("server", line)
        )
        line = POLLED.sub(lambda found: f"{found[1] or found[2]}…", line)
        # As the decoder says it, which depends on its version.
        line = re.sub(r"could not be decoded \(Error [^)]*\)", "could not be decoded (…)", line)
        return HANDLE.sub(lambda found: self._names.setdefault(found[0], f"#{len(self._names) + 1}"), line)


class _Logged(logging.Handler):
    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[1] if record.exc_info else None
        of = [value for name, value in vars(record).items() if name.startswith("rocketmq_") and value]
        text = f"{record.levelname} {record.name.removeprefix('aiorocketmq.')} {of}: {record.getMessage()}"
        self._story.add("logs", text if failure is None else f"{text} {failure!r}")


class Overheard(GrpcioTransport):
    """The ordinary transport, which adds requests and their time limits to a story."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def _heard(self, path: str, payload: bytes, timeout: float | None = None) -> None:
        name = path.rpartition("/")[2]
        request: Any = METHODS[name].request.FromString(payload)
        for message in getattr(request, "messages", ()):
            if message.system_properties.body_encoding == pb.Encoding.Value("GZIP"):
                message.body = zlib.decompress(message.body)  # its bytes depend on the version of zlib
        if name == "Telemetry" and request.HasField("thread_stack_trace"):
            request.thread_stack_trace.thread_stack_trace = "…"
        within = ""
        if timeout is not None:
            poll = getattr(
                request, "long_polling_timeout", None
            )  # of a push consumer: the time to a common moment
            beyond = 0.0 if poll is None else poll.seconds + poll.nanos / 1e9
            within = (
                f"within {timeout - beyond:g} s: " if poll is None else f"{timeout - beyond:g} s longer: "
            )
        self._story.add(f"call {name}", within + text_format.MessageToString(request, as_one_line=True))

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        self._heard(path, payload, timeout)
        return await super().unary(endpoint, path, payload, metadata, timeout)

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        self._heard(path, payload, timeout)
        await super().server_stream(endpoint, path, payload, metadata, timeout, take)

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        stream = await super().duplex(endpoint, path, metadata)
        write = stream.write

        async def heard(payload: bytes) -> None:
            self._heard(path, payload)
            await write(payload)

        stream.write = heard  # type: ignore[method-assign]  # each stream is of this story's own
        return stream


class Listening:
    """Stands before a server of the remoting protocol, and adds what clients send it to a story."""

    def __init__(self, story: Story, behind: str) -> None:
        self._story = story
        self._host, _, self._port = behind.partition(":")
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        others, other = await asyncio.open_connection(self._host, int(self._port))
        frames = FrameReader()
        back = asyncio.create_task(self._pass_on(others, writer))
        self._tasks.add(back)
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    self._heard(frame)
                other.write(data)
        other.close()
        writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    def _heard(self, frame: Frame) -> None:
        if frame.is_response:
            name, flag = "answer", f"code={frame.code} "
        else:
            name, flag = RequestCode(frame.code).name, "one way " if frame.is_one_way else ""
        fields = " ".join(f"{key}={value!r}" for key, value in frame.fields.items())
        body = ""
        if frame.body:
            is_text, is_packed = frame.body.startswith((b"{", b"[")), frame.body.startswith(b"x\x5e")
            body = frame.body.decode() if is_text else f"{frame.body!r}"
            if is_packed:
                body = f"packed {zlib.decompress(frame.body)!r}"
        self._story.add(f"call {name}", f"{flag}{fields} {body}".strip())

    @classmethod
    @asynccontextmanager
    async def before(cls, story: Story, behind: str) -> AsyncIterator[Listening]:
        """Listen on a port of its own until the block ends."""
        listening = cls(story, behind)
        server = await asyncio.start_server(listening._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        listening.address = f"{host}:{port}"
        try:
            yield listening
        finally:
            server.close()
            await asyncio.gather(*listening._tasks)
