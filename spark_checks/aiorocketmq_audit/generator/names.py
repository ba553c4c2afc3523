"""The texts of a generated recording, which its rows name by number while they are made."""

from __future__ import annotations

from collections.abc import Sequence

from aiorocketmq_audit.generator.shape import Shape
from aiorocketmq_audit.generator.world import PICKED, PICKY, TAGS, TOPICS

KINDS = (
    *("send", "receive", "deliver", "handle.start", "handle.end", "ack", "change", "forward", "dlq.deliver"),
    *("expire", "client.start", "client.stop", "client.crash", "config", "fault", "clock.sample"),
    *(
        "recorder.start",
        "recorder.end",
        "tx.end",
        "tx.check",
        "recall",
        "commit",
        "assign",
        "drain.ok",
        "reset",
    ),
)
(SEND, RECEIVE, DELIVER, HANDLE_START, HANDLE_END, ACKED, CHANGED, FORWARD, DEAD) = range(9)
(EXPIRE, CLIENT_START, CLIENT_STOP, CLIENT_CRASH, CONFIG, FAULT, CLOCK_SAMPLE, BEGIN, END) = range(9, 18)
(TX_END, TX_CHECK, RECALL, COMMIT, ASSIGN, DRAIN, RESET) = range(18, 25)

PHASES = ("invoke", "ok", "fail", "info")
INVOKED, OK, FAILED, UNKNOWN = range(4)

ROLES = ("producer", "push", "simple", "pull")
PRODUCER, PUSH, SIMPLE, PULL = range(4)

REASONS = ("retry", "extend", "undelivered")
RETRY, EXTEND, UNDELIVERED = range(3)

RESULTS = ("success", "failure")
RESOLUTIONS = ("commit", "rollback", "unknown")
SOURCES = ("client", "check")


class Names:
    """Names of groups, clients and recorders, and what they are numbered by."""

    def __init__(self, shape: Shape, run: str, *, is_broker: bool) -> None:
        self.shape = shape
        self.run = run
        self._is_broker = is_broker
        self.groups = [f"group-{number}" for number in range(shape.groups)]
        self.groups += [f"ordered-{number}" for number in range(shape.ordered_groups)]
        self.filters = ["TAG:*", "TAG:" + " || ".join(PICKED)]
        self.tags = list(TAGS)
        self.topics = list(TOPICS)
        self.brokers = [f"broker-{number}" for number in range(shape.brokers)]
        self.consumers = len(self.groups) * shape.consumers

    @property
    def recorders(self) -> list[str]:
        """One for each process: the brokers' own, or one for each client."""
        if self._is_broker:
            return [f"broker-{self.run}"]
        return [f"client-{self.run}-{name}" for name in self.clients(0)]

    def clients(self, strays: int) -> list[str]:
        """Consumers, producers, and those that lived for one message."""
        consumers = [f"{group}@{n}" for group in self.groups for n in range(self.shape.consumers)]
        producers = [f"producer@{number}" for number in range(self.shape.producers)]
        return [*consumers, *producers, *(f"stray@{number}" for number in range(strays))]

    def filter_of(self, group: int) -> int:
        """The number of a group's filter."""
        return 1 if group == PICKY and group < self.shape.groups else 0

    def settings(self, group: int) -> dict[str, str]:
        """What a `config` row says of a group."""
        shape, ordered = self.shape, group >= self.shape.groups
        steps: Sequence[int] = shape.steps_ms[:1] if ordered else shape.steps_ms
        said = {"ordered": "true" if ordered else "false", "max_attempts": str(shape.max_attempts)}
        said["steps_ms"] = ",".join(map(str, steps))
        return said | ({"order_grain": "message_group"} if self._is_broker else {})
