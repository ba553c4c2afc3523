"""State diagrams as Mermaid text, drawn from the tables that the code itself follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from aiorocketmq._core import stop_states
from aiorocketmq_fake.core import message_states

_HEAD = """# States

Written by `python -m tools.pages` from the code's own tables (do not edit).

"""
_MESSAGE = """## A message in one group

Each arrow is an event of the fake broker (`broker.events`); the recorder writes the same ones. The tests follow every
message of random histories along these arrows: an event that has none fails them.

"""
_CONSUMER = """## A push consumer of the client

Stopping is asked by the user, by leaving the block, or by cancellation.

"""

Edges = Iterable[tuple[str, str, str]]


def page() -> str:
    """The whole page."""
    message = _diagram(
        message_states.FIRST.value,
        [
            (before.value, after.value, event.__name__)
            for (before, event), after in message_states.TRANSITIONS.items()
        ]
        + [
            (before.value, after.value, f"{event.__name__} (order by queue only)")
            for (before, event), after in message_states.QUEUE_GRAIN.items()
        ],
    )
    consumer = _diagram(
        stop_states.ConsumerState.STARTING.name,
        [(before.name, after.name, event.name) for (before, event), after in stop_states.TRANSITIONS.items()],
    )
    states = _meanings({state.value: state for state in message_states.MessageState})
    return _HEAD + _MESSAGE + message + "\n" + states + "\n" + _CONSUMER + consumer


def _diagram(first: str, edges: Edges) -> str:
    merged: dict[tuple[str, str], list[str]] = {}
    for before, after, event in edges:
        merged.setdefault((before, after), []).append(event)
    lines = [f"    {before} --> {after}: {', '.join(events)}" for (before, after), events in merged.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *lines, "```", ""])


def _meanings(states: Mapping[str, Enum]) -> str:
    rows = [f"| {name} | {_FIELDS[name]} |" for name in states]
    return "\n".join(["| state | means |", "| --- | --- |", *rows, ""])


_FIELDS = {
    "Ready": "it can be received",
    "Inflight": "a consumer holds it under a lease",
    "WaitingRetry": "its lease has ended without an ack, and it is not visible yet",
    "Commit": "it was acknowledged",
    "DLQ": "it is among the group's dead letters",
    "Deleted": "retention took it before the group was done with it",
}
