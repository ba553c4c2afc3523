"""The outline of a state: topics, groups and progress as plain JSON, for a repair that has nothing better."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.salvage import GroupPosition
from aiorocketmq_fake.core.values.codes import Permission, TopicType
from aiorocketmq_fake.core.values.model import GroupConfig, RetryPolicy, TopicConfig
from aiorocketmq_fake.edge.storage.pages import PagedEntries

__all__ = ["Outline", "TopicOutline", "draw", "read"]


@dataclass(frozen=True, slots=True)
class TopicOutline:
    """A topic: its settings, and the numbers of its queues in the data file."""

    config: TopicConfig
    system: bool
    queues: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The outline of a checkpoint."""

    topics: tuple[TopicOutline, ...]
    groups: tuple[GroupConfig, ...]
    group_positions: tuple[GroupPosition, ...]


def draw(core: Broker) -> str:
    """Describe a core as JSON."""
    topics = [
        {
            "config": asdict(topic.config),
            "system": topic.system,
            "queues": [
                entries.number if isinstance(entries, PagedEntries) else 0
                for entries in core.entries(topic.config.name)
            ],
        }
        for topic in core.topics()
    ]
    groups = [asdict(group.config) for group in core.groups()]
    group_positions = [asdict(position) for position in core.group_positions()]
    return json.dumps({"topics": topics, "groups": groups, "group_positions": group_positions})


def read(text: str) -> Outline:
    """Read what `draw` wrote; ValueError, KeyError or TypeError if it is malformed."""
    plain = json.loads(text)
    return Outline(
        tuple(
            TopicOutline(_topic(topic["config"]), topic["system"], tuple(topic["queues"]))
            for topic in plain["topics"]
        ),
        tuple(map(_group, plain["groups"])),
        tuple(GroupPosition(**position) for position in plain["group_positions"]),
    )


# Any: JSON.
def _topic(plain: dict[str, Any]) -> TopicConfig:
    enums = {"type": TopicType(plain["type"]), "permission": Permission(plain["permission"])}
    return TopicConfig(**{**plain, **enums})


def _group(plain: dict[str, Any]) -> GroupConfig:
    policy = plain["retry_policy"]
    if policy is not None:
        policy = RetryPolicy(**{**policy, "steps": tuple(policy["steps"])})
    return GroupConfig(**{**plain, "retry_policy": policy})
