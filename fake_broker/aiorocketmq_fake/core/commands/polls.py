"""Parked polls: receives and pulls that wait for messages, the one with the earliest deadline first (5.4)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Generic, TypeVar

from aiorocketmq_fake.core.filters.expressions import Filter
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import PollParked, ReceiveEnded
from aiorocketmq_fake.core.values.model import Parked, PullRequest, ReceiveRequest, StoredMessage

Key = str | int
RequestT = TypeVar("RequestT", bound=ReceiveRequest | PullRequest)


class Poll(Timer, Generic[RequestT]):
    """One parked call."""

    __slots__ = (
        "apart",
        "asked",
        "cancelled",
        "client_id",
        "filter",
        "id",
        "key",
        "request",
        "topic",
        "until",
    )

    def __init__(
        self,
        id_: int,
        topic: str,
        key: Key,
        client_id: str,
        request: RequestT,
        filter_: Filter | None,
        asked: int,
        until: int,
    ) -> None:
        self.ticket = 0
        self.id = id_
        self.topic = topic
        self.key = key
        """The group of a receive, or the queue of a pull."""
        self.client_id = client_id
        self.request = request
        self.filter = filter_
        self.asked = asked
        self.until = until
        self.apart = False
        """It reads for itself alone: if it finds nothing, others of its key may still find messages."""
        self.cancelled = False
        """The caller disconnected; the poll may still take messages (R5.7)."""


def _order(poll: Poll[RequestT]) -> tuple[int, int]:
    return poll.until, poll.id


class PollBook(Generic[RequestT]):
    """The parked polls of one kind; `serve` sets the functions that answer them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.waiting: dict[str, dict[Key, list[Poll[RequestT]]]] = {}
        """Parked polls by topic and key, without empty entries."""
        self._by_id: dict[int, Poll[RequestT]] = {}

    def serve(
        self, attempt: Callable[[Poll[RequestT]], bool], expire: Callable[[Poll[RequestT]], None]
    ) -> None:
        """Set the function that answers a poll if it can (`attempt`), and the one that ends it in any case
        (`expire`)."""
        self._attempt = attempt
        self._expire = expire

    def __len__(self) -> int:
        return len(self._by_id)

    def check_room(self, topic: str, key: Key) -> None:
        """Refuse with TOO_MANY_REQUESTS when no more polls may wait (5.2)."""
        profile = self._state.profile
        full = len(self._by_id) >= profile.polls_in_all
        if full or len(self.waiting.get(topic, {}).get(key, ())) > profile.polls_per_key:
            raise Refusal(Code.TOO_MANY_REQUESTS, f"Too many polls wait on topic {topic}; try again later.")

    def park(self, poll: Poll[RequestT]) -> Parked:
        """Park a poll until it is answered or times out."""
        state = self._state
        self._by_id[poll.id] = poll
        insort(self.waiting.setdefault(poll.topic, {}).setdefault(poll.key, []), poll, key=_order)
        state.timers.set(poll, poll.until, self._expire)
        until = poll.until / 1000
        state.events.append(
            PollParked(state.at, poll.id, poll.request.group, poll.topic, poll.client_id, until)
        )
        return Parked(poll.id, until)

    def report_end(self, poll: Poll[RequestT], code: Code, messages: int) -> None:
        """Emit the event that a poll, parked or not, was answered."""
        self._state.events.append(
            ReceiveEnded(
                self._state.at,
                poll.request.group,
                poll.topic,
                poll.client_id,
                poll.id,
                poll.asked / 1000,
                poll.request.filter,
                code,
                messages,
                poll.cancelled,
            )
        )

    def get(self, poll_id: int) -> Poll[RequestT] | None:
        """Return a parked poll."""
        return self._by_id.get(poll_id)

    def remove(self, poll: Poll[RequestT]) -> None:
        """Remove a poll."""
        if self._by_id.pop(poll.id, None) is None:
            return
        self._state.timers.cancel(poll)
        keys = self.waiting[poll.topic]
        polls = keys[poll.key]
        del polls[bisect_left(polls, _order(poll), key=_order)]
        if not polls:
            del keys[poll.key]
            if not keys:
                del self.waiting[poll.topic]

    def stored(self, topic: str, message: StoredMessage, key: Key | None = None) -> None:
        """Try one poll of each group (or of one key) whose filter accepts a new message: the first one, or, on some
        servers, none but the first (R5.18)."""
        keys = self.waiting.get(topic)
        if keys is None:
            return
        for polls in list(keys.values()) if key is None else [keys.get(key, [])]:
            for poll in polls:
                if poll.filter is None or poll.filter.selects(message):
                    self._attempt(poll)
                    break
                if self._state.profile.only_first_poll_woken and not poll.apart:
                    break

    def wake(self, topic: str, key: Key) -> None:
        """Try the polls of one key in order, until one finds nothing."""
        for poll in list(self.waiting.get(topic, {}).get(key, ())):
            if not self._attempt(poll) and not poll.apart:
                return

    def of_topic(self, topic: str) -> list[Poll[RequestT]]:
        """Return the polls of a topic."""
        return [poll for polls in self.waiting.get(topic, {}).values() for poll in polls]

    def of_key(self, key: Key) -> list[Poll[RequestT]]:
        """Return the polls of a key, on any topic."""
        return [poll for poll in self._by_id.values() if poll.key == key]

    def of_client(self, client_id: str) -> list[Poll[RequestT]]:
        """Return the polls of one client."""
        return [poll for poll in self._by_id.values() if poll.client_id == client_id]

    def clear(self) -> None:
        """Drop all polls without answer: the proxy was stopped, and its callers disconnected (R12.7)."""
        for poll in self._by_id.values():
            self._state.timers.cancel(poll)
        self._by_id.clear()
        self.waiting.clear()
