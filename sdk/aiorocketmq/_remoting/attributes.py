"""Attributes of consumer groups in requests; live-broker-session.md 7.2."""

from __future__ import annotations

from aiorocketmq._core.names import check_topic


def lite_attributes(topic: str, quota: int, exclusive: bool) -> dict[str, str]:
    """Return those of a group that is bound to the lite topics of `topic`; ValueError for a malformed name."""
    check_topic(topic)
    attributes = {"+lite.bind.topic": topic}
    if quota:
        attributes["+lite.sub.client.quota"] = str(quota)
    if exclusive:
        attributes["+lite.sub.model"] = "Exclusive"
    return attributes
