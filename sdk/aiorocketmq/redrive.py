"""Sending dead letters of a consumer group back to the topics that they came from; see `Admin.redrive`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from aiorocketmq._core.names import GROUP_LIMIT
from aiorocketmq.config import Credentials, Tls
from aiorocketmq.errors import UnreachableError, UsageError
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import PullConsumer

__all__ = ["DeadLetterFilter", "Redriven"]

logger = logging.getLogger("aiorocketmq.redrive")

_ORIGINS = ("DLQ_ORIGIN_TOPIC", "RETRY_TOPIC")
"""Properties that name the topic of a dead letter: of 5.x servers, and of a message that was sent back before."""
BATCH = 64
"""Dead letters that are sent side by side, and at most twice if a redrive is cut."""
_PATIENCE = 30.0
"""Seconds without any batch of a queue that is known to hold more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters are meant: those that fit everything that is given."""

    topic: str | None = None
    """The topic that they came from."""
    tag: str | None = None
    key: str | None = None
    since: datetime | None = None
    """They became dead letters at this time or later; with a time zone."""
    until: datetime | None = None
    """They became dead letters before this time; with a time zone."""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment: datetime | None = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{name} must have a time zone, got {moment.isoformat()}")

    def matches(self, letter: ReceivedMessage, origin: str | None) -> bool:
        """Whether a dead letter that came from topic `origin` is meant."""
        stored = letter.stored_at
        return (
            (self.topic is None or origin == self.topic)
            and (self.tag is None or letter.tag == self.tag)
            and (self.key is None or self.key in letter.keys)
            and (self.since is None or (stored is not None and stored >= self.since))
            and (self.until is None or (stored is not None and stored < self.until))
        )

    @property
    def is_empty(self) -> bool:
        """Whether it lets everything through."""
        return self == DeadLetterFilter()


@dataclass(frozen=True, slots=True)
class Redriven:
    """What a redrive did, or would do."""

    read: int = 0
    """Dead letters that were looked at."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """How many were sent, by topic; in a dry run, would be sent."""
    filtered: int = 0
    """Dead letters that the filter leaves where they are."""
    unusable: tuple[str, ...] = ()
    """Ids of dead letters that cannot be sent, for example with a damaged body; they stay, and the log has why."""

    @property
    def total(self) -> int:
        """How many were sent, to all topics together."""
        return sum(self.sent.values())


def progress_group(group: str, chosen: DeadLetterFilter) -> str:
    """Return the consumer group whose offsets say how far a redrive with this filter has come."""
    name = f"redrive-{group}" if chosen.is_empty else f"redrive-{group}-{_digest(repr(chosen), 8)}"
    # A group's name may leave no room for more.
    return name if len(name) <= GROUP_LIMIT else f"redrive-{_digest(name, 32)}"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


async def redrive(
    endpoint: str,
    group: str,
    ends: Mapping[MessageQueue, int],
    *,
    to: str | None,
    chosen: DeadLetterFilter,
    limit: int | None,
    dry_run: bool,
    on_progress: Callable[[Redriven], object] | None,
    credentials: Credentials | None,
    tls: Tls | None,
) -> Redriven:
    """Send the dead letters of `group` before `ends` back; see `Admin.redrive`."""
    done = Redriven()
    reader = PullConsumer(
        endpoint, group=progress_group(group, chosen), credentials=credentials, tls=tls, max_messages=BATCH
    )
    async with reader, Producer(endpoint, credentials=credentials, tls=tls) as producer:
        left = [queue for queue, end in ends.items() if (await reader.committed(queue) or 0) < end]
        reader.assign(left)
        while left and done.total != limit:
            batch = await reader.poll(_PATIENCE)
            if batch is None:
                raise UnreachableError(
                    f"no dead letters came for {_PATIENCE:g} s, though {len(left)} queues have more; run it again to "
                    "go on",
                    group=group,
                    timed_out=True,
                )
            end = ends[batch.queue]
            letters = [letter for letter in batch if letter.offset < end]
            room = None if limit is None else limit - done.total
            messages, done, stopped_at = _prepared(
                letters, done, group=group, to=to, chosen=chosen, room=room
            )
            next_offset = min(batch.next_offset, end) if stopped_at is None else stopped_at
            if not dry_run:
                await _send(producer, messages)
                await reader.commit({batch.queue: next_offset})
            if next_offset >= end:
                left.remove(batch.queue)
                reader.assign(left)
            if on_progress is not None:
                on_progress(done)
    return done


def _prepared(
    letters: Iterable[ReceivedMessage],
    done: Redriven,
    *,
    group: str,
    to: str | None,
    chosen: DeadLetterFilter,
    room: int | None,
) -> tuple[list[tuple[Message, str]], Redriven, int | None]:
    """Return messages with their ids, the new count, and the offset of the first letter without room."""
    messages: list[tuple[Message, str]] = []
    sent, filtered, unusable, read = Counter(done.sent), done.filtered, list(done.unusable), done.read
    stopped_at = None
    for letter in letters:
        if len(messages) == room:
            stopped_at = letter.offset
            break
        read += 1
        origin = _origin(letter, group)
        if not chosen.matches(letter, origin):
            filtered += 1
            continue
        topic = to or origin
        if topic is None:
            raise UsageError(
                f"dead letter {letter.message_id} does not name the topic it came from: give the topic to send it to",
                topic=letter.topic,
            )
        try:
            messages.append((_message(letter, topic), letter.message_id))
        except ValueError as problem:
            logger.warning("dead letter %s cannot be sent and stays: %s", letter.message_id, problem)
            unusable.append(letter.message_id)
        else:
            sent[topic] += 1
    return messages, Redriven(read, dict(sent), filtered, tuple(unusable)), stopped_at


def _origin(letter: ReceivedMessage, group: str) -> str | None:
    """The topic that a dead letter was sent to first, None if unknown."""
    properties = letter.raw_properties
    origin = next((properties[name] for name in _ORIGINS if name in properties), "")
    # Redeliveries of gRPC consumers come from a topic of their own, in either of two spellings.
    for prefix in (f"%RETRY%{group}_", f"%RETRY%{group}+"):
        origin = origin.removeprefix(prefix)
    return None if not origin or origin.startswith("%") else origin


def _message(letter: ReceivedMessage, topic: str) -> Message:
    """The message as it was sent first, without delay; ValueError if it cannot be sent."""
    if letter.corruption is not None:
        raise ValueError(f"its body is damaged: {letter.corruption}")
    return Message(
        topic,
        letter.body,
        tag=letter.tag,
        keys=letter.keys,
        properties=letter.properties,
        message_group=letter.message_group,
        priority=letter.priority if letter.message_group is None else None,
    )


async def _send(producer: Producer, messages: Sequence[tuple[Message, str]]) -> None:
    """Send all side by side, those of one message group in order, each under its own id; raise the first error."""
    # The public method makes new ids, by which a message that is sent twice could not be recognised.
    send = producer._sender.send
    outcomes = await asyncio.gather(
        *(send(message, message_id=message_id) for message, message_id in messages), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
