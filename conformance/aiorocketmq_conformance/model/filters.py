"""Filters that every server reads alike: lists of tags, and the lite topics that a client has subscribed to."""

from __future__ import annotations

from aiorocketmq_conformance.model.calls import Filter


def tags(text: str) -> Filter:
    """Return the filter of a list of tags."""
    if text.strip() in ("", "*"):
        return Filter(text, lambda content: True)
    wanted = {term.strip() for term in text.split("||")} - {""}
    return Filter(text, lambda content: (content.tag or "") in wanted)


def lite(*names: str) -> Filter:
    """Return the filter of a client that has subscribed to some lite topics."""
    text = " ".join(sorted(names))
    return Filter(text, lambda content: content.message_group in text.split(), is_lite=True)
