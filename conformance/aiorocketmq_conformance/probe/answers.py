"""Responses as observed by a probe client: deliveries and all frames of a receive, each with its time."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from aiorocketmq.wire import messages as pb

_CODES: dict[int, str] = {number: name for name, number in pb.Code.items()}
DIGESTS: Mapping[int, Callable[[bytes], str]] = {
    pb.DigestType.MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest(),
    pb.DigestType.CRC32: lambda body: f"{zlib.crc32(body):X}",
    pb.DigestType.SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest(),
}
"""Checksums of bodies by their kind, in any case of letters."""


def seconds_of(time: pb.Duration | pb.Timestamp) -> float:
    """Return a duration in seconds, a time stamp in Unix seconds."""
    return time.seconds + time.nanos / 1e9


def code_name(code: int) -> str:
    """Return the name of a v2 code, or the number if it is not in the contract."""
    return _CODES.get(code) or str(code)


class HasStatus(Protocol):
    """A response, or an entry of one."""

    @property
    def status(self) -> pb.Status:
        """Its status."""


class HasEntries(Protocol):
    """A response with a status for each message of its request."""

    @property
    def entries(self) -> Iterable[HasStatus]:
        """One entry for each message."""


def code_of(response: HasStatus) -> str:
    """Return the name of a response's code."""
    return code_name(response.status.code)


def entry_codes(response: HasEntries) -> list[str]:
    """Return the names of the codes of a response's entries."""
    return [code_of(entry) for entry in response.entries]


def status_text(status: pb.Status) -> str:
    """Return the name of a status's code with the server's text, on one line."""
    text = " ".join(status.message.split())
    return f"{code_name(status.code)}: {text}" if text else code_name(status.code)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """One message of a receive."""

    message: pb.Message
    at: float
    """When its frame arrived, seconds of the case's clock."""
    asked_at: float
    """When its receive was sent."""
    client_id: str
    group: str
    serial: int
    """Incremented with every delivery of the process: the order of arrival if a manual clock does not move."""

    @property
    def id(self) -> str:
        """The message id."""
        return self.message.system_properties.message_id

    @property
    def body(self) -> bytes:
        """The body's bytes."""
        return self.message.body

    @property
    def text(self) -> str:
        """The body as text, as most cases send it."""
        return self.message.body.decode()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.message.topic.name

    @property
    def handle(self) -> str:
        """The receipt handle."""
        return self.message.system_properties.receipt_handle

    @property
    def attempt(self) -> int:
        """The delivery attempt."""
        return self.message.system_properties.delivery_attempt

    @property
    def queue(self) -> int:
        """The queue's id; that of the retry topic on some servers (rule R7.1)."""
        return self.message.system_properties.queue_id

    @property
    def offset(self) -> int:
        """The offset in that queue."""
        return self.message.system_properties.queue_offset

    @property
    def message_group(self) -> str:
        """The message group, "" without."""
        return self.message.system_properties.message_group

    @property
    def lite_topic(self) -> str:
        """The lite topic, "" without."""
        return self.message.system_properties.lite_topic

    @property
    def stored_at(self) -> float:
        """The store time stamp, Unix seconds."""
        return seconds_of(self.message.system_properties.store_timestamp)

    @property
    def born_at(self) -> float:
        """The born time stamp, Unix seconds."""
        return seconds_of(self.message.system_properties.born_timestamp)

    def __repr__(self) -> str:
        return f"<{self.body[:24]!r} attempt {self.attempt} at {self.at:.3f}>"


@dataclass(frozen=True, slots=True)
class Received:
    """A complete receive or pull: its frames in order of arrival, its times, and how the stream ended."""

    frames: tuple[tuple[str, float], ...]
    """(`status` | `message` | `delivery_timestamp`, time of arrival)."""
    statuses: tuple[pb.Status, ...]
    deliveries: tuple[Delivery, ...]
    started: float
    ended: float
    error: str | None
    """Name of the gRPC status if the stream failed, else None."""
    next_offset: int | None = None
    """The next offset, of a pull only."""
    delivered_at: float | None = None
    """The server's own time of the delivery, Unix seconds."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of frames in order."""
        return tuple(kind for kind, _ in self.frames)

    @property
    def code(self) -> int:
        """The v2 code; AssertionError unless there was exactly one status."""
        assert len(self.statuses) == 1, f"{len(self.statuses)} status frames, stream ended with {self.error}"
        return self.statuses[0].code

    @property
    def took(self) -> float:
        """Seconds from request to the end of the stream."""
        return self.ended - self.started
