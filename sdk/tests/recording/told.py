"""Events as clients would tell them, and what a recorder made of them."""

from __future__ import annotations

from typing import Any

from aiorocketmq.hooks import ClientIdentity, DeliverEvent, Phase, ReceiveEvent, Role, SendEvent
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage
from aiorocketmq.recording import Recorder

PRODUCER = ClientIdentity("p@1", Role.PRODUCER)
CONSUMER = ClientIdentity("c@1", Role.PUSH, "billing")
QUEUE = MessageQueue("orders", "broker-a", 3)


class Instants:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def rows_of(recorder: Recorder) -> list[dict[str, Any]]:
    from pyarrow import parquet

    recorder.close()
    rows: list[dict[str, Any]] = []
    for file in sorted(recorder.folder.glob("*.parquet")):
        rows += parquet.read_table(file).to_pylist()
    return sorted(rows, key=lambda row: row["seq"])


def received(message_id: str = "M1", body: bytes = b"1") -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders", body=body, message_id=message_id, queue=QUEUE, offset=7, group="billing"
    )


def delivered(message: ReceivedMessage, position: int = 0) -> DeliverEvent:
    handle = f"handle-{position}"
    return DeliverEvent(
        client=CONSUMER, operation="1", message=message, handle=handle, position=position, invisible=30
    )


def a_poll(phase: Phase) -> ReceiveEvent:
    return ReceiveEvent(
        client=CONSUMER, phase=phase, operation="1", queue=QUEUE, max_messages=32, invisible=30.0
    )


def asked(number: int) -> SendEvent:
    return SendEvent(
        client=PRODUCER,
        operation=str(number),
        phase=Phase.INVOKE,
        message=Message("orders", b"1"),
        message_id=f"M{number}",
    )
