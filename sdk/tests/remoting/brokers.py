"""A scripted broker for administration: one topic `orders` of two queues, one group `billing`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiorocketmq import MessageQueue
from aiorocketmq._core.remoting.frame import RESPONSE, Frame

from sdk.tests.remoting.script import Reply

NEW, OLD = 513, 407
"""Versions that 5.5.0 and 4.9.7 declare."""
FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def reply(
    frame: Frame,
    code: int = 0,
    body: object = None,
    *,
    version: int = NEW,
    remark: str = "why",
    **fields: str,
) -> Frame:
    """An answer; `body` is bytes, or what becomes JSON."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return Frame(
        code=code, opaque=frame.opaque, flag=RESPONSE, body=raw, version=version, fields=fields, remark=remark
    )


def table(rows: Mapping[MessageQueue, object], name: str = "offsetTable") -> bytes:
    """A table by queue as brokers write it: with objects as keys."""
    entries = (
        f'{{"brokerName":"{queue.broker}","queueId":{queue.id},"topic":"{queue.topic}"}}:{json.dumps(value)}'
        for queue, value in rows.items()
    )
    return f'{{"{name}":{{{",".join(entries)}}}}}'.encode()


@dataclass
class Broker:
    """Answers as a broker of `version`; `answers` by request come first, `changes` keeps what is to be changed."""

    version: int = NEW
    answers: dict[int, Reply] = field(default_factory=dict)
    members: dict[str, bytes] = field(default_factory=dict)
    """Running info of each member by client id."""
    committed: dict[MessageQueue, int] = field(default_factory=lambda: {FIRST: 4, SECOND: 0})
    settings: dict[str, Any] = field(
        default_factory=lambda: {
            "attributes": {"message.type": "FIFO"}, "order": True, "perm": 7, "readQueueNums": 2,
            "topicFilterType": "SINGLE_TAG", "topicName": "orders", "topicSysFlag": 1, "writeQueueNums": 2,
        }
    )  # fmt: skip
    group: dict[str, Any] = field(default_factory=lambda: {"groupName": "billing", "retryMaxTimes": 16})
    changes: list[Frame] = field(default_factory=list)
    address: str = "127.0.0.1:1"

    def __call__(self, frame: Frame) -> Frame | bytes | None:
        reply = self.answers.get(frame.code)
        return reply(frame) if reply is not None else self._usual(frame)

    def _usual(self, frame: Frame) -> Frame:
        version, fields = self.version, frame.fields
        if fields.get("topic", "orders") != "orders":
            return reply(frame, 17, version=version)
        match frame.code:
            case 105:
                settings = self.settings
                queues = {
                    "brokerName": "broker-a", "perm": settings["perm"],
                    "readQueueNums": settings["readQueueNums"], "writeQueueNums": settings["writeQueueNums"],
                }  # fmt: skip
                return reply(frame, body={"queueDatas": [queues], "brokerDatas": [self._data()]})
            case 106:
                return reply(frame, body={"brokerAddrTable": {"broker-a": self._data()}})
            case 17 | 200 | 15:
                self.changes.append(frame)
                if frame.code == 17:
                    self.settings |= {
                        "perm": int(fields["perm"]), "readQueueNums": int(fields["readQueueNums"]),
                        "writeQueueNums": int(fields["writeQueueNums"]),
                    }  # fmt: skip
                return reply(frame, version=version)
            case 222:
                self.changes.append(frame)
                queue = int(fields.get("queueId", -1))
                moved = {MessageQueue("orders", "broker-a", queue): int(fields.get("offset", 0))}
                body = table({FIRST: 1, SECOND: 2} if queue < 0 else moved)
                return reply(frame, body=body, version=version)
            case 351 if version == NEW:
                return reply(frame, body=self.settings)
            case 21:
                settings = {name: value for name, value in self.settings.items() if name != "attributes"}
                return reply(frame, body={"topicConfigTable": {"orders": settings}}, version=version)
            case 201:
                return reply(frame, body={"subscriptionGroupTable": {"billing": self.group}}, version=version)
            case 202:
                spans = {
                    FIRST: {"lastUpdateTimestamp": 1_700_000_000_500, "maxOffset": 9, "minOffset": 1},
                    SECOND: {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
                }
                return reply(frame, body=table(spans), version=version)
            case 29:
                return reply(frame, version=version, offset="5" if fields["queueId"] == "0" else "-1")
            case 32:
                return reply(frame, timestamp="1700000000000" if fields["queueId"] == "0" else "-1")
            case 203 if self.members:
                return reply(frame, body=self._members(), version=version)
            case 203:
                return reply(frame, 206, version=version)
            case 208:
                progress = {
                    queue: {"brokerOffset": 9, "consumerOffset": offset, "lastTimestamp": 1_700_000_000_250}
                    for queue, offset in self.committed.items()
                }
                return reply(frame, body=table(progress), version=version)
            case 307:
                return reply(frame, body=self.members[fields["clientId"]], version=version)
            case _:
                return reply(frame, 3, version=version)

    def _data(self) -> dict[str, object]:
        return {"brokerName": "broker-a", "cluster": "c", "brokerAddrs": {"0": self.address}}

    def _members(self) -> dict[str, object]:
        clients = [
            {"clientId": name, "clientAddr": "10.0.0.7:4711", "language": "JAVA", "version": 513}
            for name in self.members
        ]
        return {
            "connectionSet": clients,
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {"orders": {"subString": "paid || refunded", "topic": "orders"}},
        }
