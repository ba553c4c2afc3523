"""A name server and broker on loopback that answer as a test says, and what pull consumers ask of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiorocketmq import MessageQueue, PullConsumer
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import (
    ONE_WAY,
    RESPONSE,
    Frame,
    FrameReader,
    MalformedFrameError,
    encode,
)
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.session import RemotingSession

QUEUE = MessageQueue("T", "broker-a", 0)
NOTICE = Frame(
    code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=ONE_WAY, fields={"consumerGroup": "g"}
)
"""A broker tells a member that others have come or gone."""

Reply = Callable[[Frame], "Frame | bytes | None"]


class Server:
    """One loopback server; `seen` are the frames it got, `reply` makes the answer (None: none, b"": hang up)."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.seen: list[Frame] = []
        self.arrived = asyncio.Event()
        self.address = Address("127.0.0.1", 0)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        frames = FrameReader()
        with suppress(ConnectionError, MalformedFrameError):
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    self.seen.append(frame)
                    self.arrived.set()
                    answer = self.reply(frame)
                    if answer == b"":
                        writer.close()
                        return
                    if answer is not None:
                        writer.write(answer if isinstance(answer, bytes) else encode(answer))
        writer.close()


Serve = Callable[[Reply], Awaitable[Server]]
Start = Callable[["Script"], Awaitable[Server]]


def answer(
    frame: Frame, code: int = 0, fields: Mapping[str, str] | None = None, body: bytes = b"", remark: str = ""
) -> Frame:
    return Frame(
        code=code, opaque=frame.opaque, flag=RESPONSE, fields=fields or {}, body=body, remark=remark or None
    )


@dataclass
class Script:
    """A name server and broker in one, for one topic with some queues; `answers` by request come first."""

    answers: dict[int, Reply] = field(default_factory=dict)
    queues: int = 1
    writable: int | None = None
    """Queues that may be written, if not all."""
    offsets: dict[int, int] = field(default_factory=dict)
    consumers: list[str] = field(default_factory=list)
    address: str = ""

    def __call__(self, frame: Frame) -> Frame | bytes | None:
        if frame.is_response:
            return None
        reply = self.answers.get(frame.code)
        return reply(frame) if reply is not None else self._usual(frame)

    def _usual(self, frame: Frame) -> Frame | None:
        fields, queue = frame.fields, int(frame.fields.get("queueId", 0))
        match frame.code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return answer(frame, body=self.route())
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                return answer(frame, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
            case RequestCode.QUERY_CONSUMER_OFFSET:
                if queue in self.offsets:
                    return answer(frame, fields={"offset": str(self.offsets[queue])})
                return answer(frame, ResponseCode.QUERY_NOT_FOUND)
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                self.offsets[queue] = int(fields["commitOffset"])
                return answer(frame)
            case RequestCode.GET_MIN_OFFSET | RequestCode.GET_MAX_OFFSET:
                return answer(frame, fields={"offset": "0"})
            case RequestCode.PULL_MESSAGE:
                return None  # held
            case RequestCode.HEART_BEAT:
                client = json.loads(frame.body)["clientID"]
                if client not in self.consumers:
                    self.consumers.append(client)
                return answer(frame)
            case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return answer(frame, body=json.dumps({"consumerIdList": self.consumers}).encode())
            case RequestCode.LOCK_BATCH_MQ:
                return answer(
                    frame, body=json.dumps({"lockOKMQSet": json.loads(frame.body)["mqSet"]}).encode()
                )
            case _:
                return answer(frame)

    def route(self) -> bytes:
        return json.dumps(
            {
                "brokerDatas": [
                    {"brokerAddrs": {"0": self.address}, "brokerName": "broker-a", "cluster": "c"}
                ],
                "queueDatas": [
                    {
                        "brokerName": "broker-a",
                        "perm": 6,
                        "readQueueNums": self.queues,
                        "writeQueueNums": self.queues if self.writable is None else self.writable,
                    }
                ],
            }
        ).encode()


async def start_two(start: Start, script: Script, second: Script) -> tuple[Server, Server]:
    """Start two brokers of the topic, the first of which is the name server."""
    servers = await start(script), await start(second)
    route = json.loads(script.route())
    for part, fields in (("brokerDatas", {"brokerAddrs": {"0": second.address}}), ("queueDatas", {})):
        route[part].append({**route[part][0], **fields, "brokerName": "broker-b"})
    script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda frame: answer(
        frame, body=json.dumps(route).encode()
    )
    return servers


def consumer(server: Server, **options: Any) -> PullConsumer:
    return PullConsumer(f"namesrv://{server.address}", group="g", **options)


def session_of(reader: PullConsumer) -> RemotingSession:
    """The session of a consumer at name servers."""
    session = reader._session
    assert isinstance(session, RemotingSession)
    return session


def requests(server: Server, code: RequestCode) -> list[Frame]:
    return [frame for frame in server.seen if frame.code == code and not frame.is_response]


async def seen(server: Server, code: RequestCode, count: int = 1) -> list[Frame]:
    """The requests of this kind, once there are so many."""
    async with asyncio.timeout(10):
        while len(requests(server, code)) < count:
            server.arrived.clear()
            await server.arrived.wait()
    return requests(server, code)


def resetting(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The notification that an administrator has reset offsets."""
    table = ",".join(
        f'{{"brokerName":"{queue.broker}","queueId":{queue.id},"topic":"{queue.topic}"}}:{offset}'
        for queue, offset in offsets.items()
    )
    body = f'{{"offsetTable":{{{table}}}}}'.encode()
    return encode(Frame(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=9, flag=ONE_WAY, body=body))


def found(*bodies: bytes, next_offset: int) -> Reply:
    """Replys a pull once; the next ones are held."""
    left = [True]

    def reply(frame: Frame) -> Frame | None:
        if not left:
            return None
        left.clear()
        fields = {"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "9"}
        return answer(frame, fields=fields, body=b"".join(bodies))

    return reply
