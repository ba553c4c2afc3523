"""The state that the core's modules share: all records, and outputs and events not yet taken."""

from collections import deque
from math import ceil
from random import Random

from aiorocketmq_fake.core.records.clients import Client
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.leases import LeaseBook
from aiorocketmq_fake.core.records.timers import Timers
from aiorocketmq_fake.core.records.topics import NewEntries, Topic
from aiorocketmq_fake.core.values.events import Delivered, Event
from aiorocketmq_fake.core.values.model import Output, StoredMessage
from aiorocketmq_fake.core.values.names import check_group, check_topic
from aiorocketmq_fake.core.values.profile import Profile


class State:
    """The state of one broker. `now` and all times inside are whole milliseconds."""

    __slots__ = (
        "broker",
        "cleaning_at",
        "clients",
        "consumptions",
        "events",
        "first_message",
        "groups",
        "history",
        "leases",
        "log_end",
        "new_entries",
        "now",
        "outputs",
        "profile",
        "reserved_topics",
        "revive_queue",
        "rng",
        "serial",
        "store_full",
        "timers",
        "topics",
    )

    def __init__(
        self, profile: Profile, now: int, rng: Random, broker: str, cluster: str, history: int
    ) -> None:
        self.profile = profile
        self.rng = rng
        self.broker = broker
        self.reserved_topics = frozenset({broker, cluster})
        self.now = now
        self.timers = Timers()
        self.events: list[Event] = []
        self.history: deque[Delivered] = deque(maxlen=history)
        """The last deliveries."""
        self.outputs: list[Output] = []
        self.new_entries: NewEntries = list
        """Makes the message container of a new queue."""
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.clients: dict[str, Client] = {}
        self.consumptions: dict[tuple[str, str], Consumption] = {}
        self.leases = LeaseBook()
        self.log_end = 1
        """Log position of the next message; 0 is what a changed handle names."""
        self.first_message: StoredMessage | None = None
        self.serial = 0
        self.revive_queue = 0
        self.cleaning_at = now
        """When retention is due; no timer, as nothing waits for it."""
        self.store_full = False
        """Whether producers may store nothing."""

    @property
    def at(self) -> float:
        """The present time in the unit of events, seconds."""
        return self.now / 1000

    def mark(self) -> tuple[int, int, int]:
        """Return three counters of the state's progress: equal histories have equal marks."""
        return self.log_end, self.serial, self.timers.tickets

    def next_serial(self) -> int:
        """Return the next number for receives and server commands."""
        self.serial += 1
        return self.serial

    def message_at(self, position: int) -> StoredMessage | None:
        """Return the message at a position of the log, by which every queue is ordered; None if there is none."""
        for topic in self.topics.values():
            for queue in topic.queues:
                message = queue.get(queue.first_from(position))
                if message is not None and message.position == position:
                    return message
        return None

    def check_topic(self, name: str) -> None:
        """Refuse illegal topic names; the name of a topic that exists is legal."""
        if name not in self.topics:
            check_topic(name, self.reserved_topics)

    def check_group(self, name: str) -> None:
        """Refuse illegal group names; the name of a group that exists is legal."""
        if name not in self.groups:
            check_group(name)


def milliseconds(seconds: float) -> int:
    """Convert to whole milliseconds, rounding down but for float errors."""
    return int(seconds * 1000 + 0.01)


def milliseconds_up(seconds: float) -> int:
    """Convert to whole milliseconds, rounding up but for float errors."""
    return ceil(seconds * 1000 - 0.01)
