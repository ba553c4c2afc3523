"""The calls of the contract that the client makes, each with the class of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

Request = TypeVar("Request", bound=ProtobufMessage)
Response = TypeVar("Response", bound=ProtobufMessage)


@dataclass(frozen=True, slots=True)
class Call(Generic[Request, Response]):
    """One call: its name, its path, and the classes of request and answer."""

    name: str
    path: str
    request: type[Request]
    response: type[Response]


def _call(name: str, request: type[Request], response: type[Response]) -> Call[Request, Response]:
    return Call(name, METHODS[name].path, request, response)


QUERY_ROUTE = _call("QueryRoute", pb.QueryRouteRequest, pb.QueryRouteResponse)
HEARTBEAT = _call("Heartbeat", pb.HeartbeatRequest, pb.HeartbeatResponse)
SEND = _call("SendMessage", pb.SendMessageRequest, pb.SendMessageResponse)
QUERY_ASSIGNMENT = _call("QueryAssignment", pb.QueryAssignmentRequest, pb.QueryAssignmentResponse)
RECEIVE = _call("ReceiveMessage", pb.ReceiveMessageRequest, pb.ReceiveMessageResponse)
ACK = _call("AckMessage", pb.AckMessageRequest, pb.AckMessageResponse)
CHANGE = _call(
    "ChangeInvisibleDuration", pb.ChangeInvisibleDurationRequest, pb.ChangeInvisibleDurationResponse
)
FORWARD = _call(
    "ForwardMessageToDeadLetterQueue",
    pb.ForwardMessageToDeadLetterQueueRequest,
    pb.ForwardMessageToDeadLetterQueueResponse,
)
RECALL = _call("RecallMessage", pb.RecallMessageRequest, pb.RecallMessageResponse)
END_TRANSACTION = _call("EndTransaction", pb.EndTransactionRequest, pb.EndTransactionResponse)
TERMINATE = _call(
    "NotifyClientTermination", pb.NotifyClientTerminationRequest, pb.NotifyClientTerminationResponse
)
PULL = _call("PullMessage", pb.PullMessageRequest, pb.PullMessageResponse)
UPDATE_OFFSET = _call("UpdateOffset", pb.UpdateOffsetRequest, pb.UpdateOffsetResponse)
GET_OFFSET = _call("GetOffset", pb.GetOffsetRequest, pb.GetOffsetResponse)
QUERY_OFFSET = _call("QueryOffset", pb.QueryOffsetRequest, pb.QueryOffsetResponse)
SYNC_LITE = _call("SyncLiteSubscription", pb.SyncLiteSubscriptionRequest, pb.SyncLiteSubscriptionResponse)
TELEMETRY = _call("Telemetry", pb.TelemetryCommand, pb.TelemetryCommand)
