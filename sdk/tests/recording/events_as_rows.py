"""Events as clients emit them, and what a recorder made of them."""

from __future__ import annotations

from typing import Any

from aiorocketmq._recording import records as kinds
from aiorocketmq._recording.records import plain
from aiorocketmq._recording.row_builder import RowBuilder
from aiorocketmq._recording.rows import Sheet
from aiorocketmq.hooks import ClientIdentity, DeliverEvent, Event, Phase, ReceiveEvent, Role, SendEvent
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


def sheet_of(*facts: tuple[float, Event | int]) -> Sheet:
    """What an builder makes of events at instants (in seconds); a number is so many facts that were left out."""
    sheet, builder = Sheet(), RowBuilder()
    clients = {what.client for _, what in facts if isinstance(what, Event)}
    builder.take(
        [(kinds.CLIENT, 0, 0, None, each.client_id, each.role.value, each.group) for each in clients], sheet
    )
    for at, what in facts:
        ns = round(at * 1e9)
        kind = kinds.RAW_EVENT if isinstance(what, Event) else kinds.LEFT_OUT
        builder.take(plain([(kind, ns, ns, None, what)]), sheet)
    return sheet


def received(message_id: str = "M1", body: bytes = b"1", **more: Any) -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders", body=body, message_id=message_id, queue=QUEUE, offset=7, group="billing", **more
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
