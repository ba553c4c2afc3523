"""The texts of a generated recording, which rows under construction refer to by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from aiorocketmq.recording_format import VERSION

from aiorocketmq_audit.generator.columns import WORDS, Ints
from aiorocketmq_audit.generator.shape import Shape
from aiorocketmq_audit.generator.world import PICKED, PICKY, TAGS, TOPICS


class Names:
    """Names as one observer records them."""

    def __init__(self, shape: Shape, run: str, *, is_broker: bool) -> None:
        self.shape = shape
        self.run = run
        self._is_broker = is_broker
        self.groups = [f"group-{number}" for number in range(shape.groups)]
        self.groups += [f"ordered-{number}" for number in range(shape.ordered_groups)]
        self.consumers = len(self.groups) * shape.consumers
        own = {"version": str(VERSION), "writer": "aiorocketmq_audit generator", "clock": "real"}
        self.cfg = [*(self.settings(group) for group in range(len(self.groups))), own]
        """Settings of each group, and of the recorder itself."""

    @property
    def recorders(self) -> list[str]:
        """Return the recorders, one for each process: the broker's, or one for each client."""
        return (
            [f"broker-{self.run}"]
            if self._is_broker
            else [f"client-{self.run}-{x}" for x in self._clients(0)]
        )

    def words(self, strays: int) -> dict[str, Sequence[str]]:
        """Return all texts by column; `strays` clients lived for one message."""
        return WORDS | {
            "recorder": self.recorders,
            "client_id": self._clients(strays),
            "group": self.groups,
            "topic": TOPICS,
            "broker": [f"broker-{number}" for number in range(self.shape.brokers)],
            "message_group": [f"key-{number}" for number in range(self.shape.message_groups)],
            "tag": TAGS,
            "props_sha": ["0" * 32],
            "producer": [f"producer-{number}" for number in range(self.shape.producers)],
            "filter": ["TAG:*", "TAG:" + " || ".join(PICKED)],
        }

    def filters_of(self, groups: Ints) -> Ints:
        """Return the index of each group's filter."""
        filters: Ints = ((groups == PICKY) & (groups < self.shape.groups)).astype(np.int64)
        return filters

    def settings(self, group: int) -> dict[str, str]:
        """Return the settings in a group's `config` row."""
        shape, ordered = self.shape, group >= self.shape.groups
        steps: Sequence[int] = shape.steps_ms[:1] if ordered else shape.steps_ms
        cfg = {"ordered": "true" if ordered else "false", "max_attempts": str(shape.max_attempts)}
        cfg["steps_ms"] = ",".join(map(str, steps))
        return cfg | ({"order_grain": "message_group"} if self._is_broker else {})

    def _clients(self, strays: int) -> list[str]:
        consumers = [f"{group}@{n}" for group in self.groups for n in range(self.shape.consumers)]
        producers = [f"producer@{number}" for number in range(self.shape.producers)]
        return [*consumers, *producers, *(f"stray@{number}" for number in range(strays))]
