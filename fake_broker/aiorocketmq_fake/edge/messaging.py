"""The unary calls of the data plane: each converts its request, runs a command of the core, and converts the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiorocketmq.wire import messages as pb

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.model import RouteEntry
from aiorocketmq_fake.edge import conversion
from aiorocketmq_fake.edge.caller import Caller, check_language
from aiorocketmq_fake.edge.calls import Act
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.peers import PeerBrokers

__all__ = ["Messaging"]


class Messaging:
    """The unary half of `MessagingService`. Refusals of the core propagate."""

    def __init__(self, driver: Driver, peers: PeerBrokers) -> None:
        self._driver = driver
        self._peers = peers
        self._core = driver.core

    def acts(self) -> Mapping[str, Act]:
        """Return the handler of each method, by its name."""
        return {
            "QueryRoute": self.query_route,
            "QueryAssignment": self.query_assignment,
            "Heartbeat": self.heartbeat,
            "NotifyClientTermination": self.notify_client_termination,
            "SendMessage": self.send_message,
            "RecallMessage": self.recall_message,
            "EndTransaction": self.end_transaction,
            "AckMessage": self.ack_message,
            "ChangeInvisibleDuration": self.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": self.forward_message_to_dead_letter_queue,
            "UpdateOffset": self.update_offset,
            "GetOffset": self.get_offset,
            "QueryOffset": self.query_offset,
            "SyncLiteSubscription": self.sync_lite_subscription,
        }

    def query_route(self, request: pb.QueryRouteRequest, caller: Caller) -> pb.QueryRouteResponse:
        """List a topic's queues (3)."""
        entries = self._peers.ask(self._driver, _route, request.topic.name, client_id=caller.client_id)
        response = pb.QueryRouteResponse(status=_ok())
        for entry, address in entries:
            endpoints = address.endpoints(request.endpoints, self._core.profile)
            conversion.set_queue(response.message_queues.add(), entry, request.topic, endpoints)
        return response

    def query_assignment(
        self, request: pb.QueryAssignmentRequest, caller: Caller
    ) -> pb.QueryAssignmentResponse:
        """Return the assignment of a consumer (R3.6-R3.8)."""
        entries = self._peers.ask(
            self._driver, _assignment, caller.client_id, request.topic.name, request.group.name
        )
        response = pb.QueryAssignmentResponse(status=_ok())
        for entry, address in entries:
            endpoints = address.endpoints(request.endpoints, self._core.profile)
            queue = response.assignments.add().message_queue
            conversion.set_queue(queue, entry, request.topic, endpoints)
        return response

    def heartbeat(self, request: pb.HeartbeatRequest, caller: Caller) -> pb.HeartbeatResponse:
        """Keep a client registered (R2.14)."""
        self._driver.run(self._core.heartbeat, caller.client_id, request.group.name)
        return pb.HeartbeatResponse(status=_ok())

    def notify_client_termination(
        self, request: pb.NotifyClientTerminationRequest, caller: Caller
    ) -> pb.NotifyClientTerminationResponse:
        """Unregister a client (R2.16); without a known language it cannot be found (R1.1)."""
        check_language(caller, self._core.profile)
        self._driver.run(self._core.terminate, caller.client_id, request.group.name)
        return pb.NotifyClientTerminationResponse(status=_ok())

    def send_message(self, request: pb.SendMessageRequest, caller: Caller) -> pb.SendMessageResponse:
        """Store messages (4)."""
        messages = tuple([conversion.outgoing(message, caller) for message in request.messages])
        outcomes = self._driver.run(self._core.send, messages, client_id=caller.client_id)
        return conversion.send_response(outcomes)

    def recall_message(self, request: pb.RecallMessageRequest, caller: Caller) -> pb.RecallMessageResponse:
        """Recall a delayed message (4.8)."""
        message_id = self._driver.run(
            self._core.recall, request.topic.name, request.recall_handle, client_id=caller.client_id
        )
        return pb.RecallMessageResponse(status=_ok(), message_id=message_id)

    def end_transaction(self, request: pb.EndTransactionRequest, caller: Caller) -> pb.EndTransactionResponse:
        """Commit or roll back a transaction (9.2)."""
        self._driver.run(self._core.end_transaction, conversion.end_transaction_request(request, caller))
        return pb.EndTransactionResponse(status=_ok())

    def ack_message(self, request: pb.AckMessageRequest, caller: Caller) -> pb.AckMessageResponse:
        """Acknowledge messages (6.2)."""
        return conversion.ack_response(
            self._driver.run(self._core.ack, conversion.ack_request(request, caller))
        )

    def change_invisible_duration(
        self, request: pb.ChangeInvisibleDurationRequest, caller: Caller
    ) -> pb.ChangeInvisibleDurationResponse:
        """Change the end of a lease (6.3)."""
        handle = self._driver.run(self._core.change_invisible, conversion.change_request(request, caller))
        return pb.ChangeInvisibleDurationResponse(status=_ok(), receipt_handle=handle)

    def forward_message_to_dead_letter_queue(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, caller: Caller
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Forward a message to the dead-letter topic (6.4)."""
        forward = conversion.forward_request(request, caller)
        self._driver.run(self._core.forward_to_dead_letter_queue, forward)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=_ok())

    def update_offset(self, request: pb.UpdateOffsetRequest, caller: Caller) -> pb.UpdateOffsetResponse:
        """Store a group's offset (10.1)."""
        queue = request.message_queue
        self._driver.run(
            self._core.update_offset, request.group.name, queue.topic.name, queue.id, request.offset
        )
        return pb.UpdateOffsetResponse(status=_ok())

    def get_offset(self, request: pb.GetOffsetRequest, caller: Caller) -> pb.GetOffsetResponse:
        """Return a group's offset (10.1)."""
        queue = request.message_queue
        offset = self._driver.run(self._core.get_offset, request.group.name, queue.topic.name, queue.id)
        return pb.GetOffsetResponse(status=_ok(), offset=offset)

    def query_offset(self, request: pb.QueryOffsetRequest, caller: Caller) -> pb.QueryOffsetResponse:
        """Return an offset of a queue: first, next or by time (10.1)."""
        offset = self._driver.run(self._core.query_offset, conversion.offset_query(request))
        return pb.QueryOffsetResponse(status=_ok(), offset=offset)

    def sync_lite_subscription(
        self, request: pb.SyncLiteSubscriptionRequest, caller: Caller
    ) -> pb.SyncLiteSubscriptionResponse:
        """Change the lite topics that a client subscribes to (R4.33)."""
        self._driver.run(self._core.sync_lite_subscription, conversion.lite_sync_request(request, caller))
        return pb.SyncLiteSubscriptionResponse(status=_ok())


def _route(core: Broker) -> Callable[..., tuple[RouteEntry, ...]]:
    return core.query_route


def _assignment(core: Broker) -> Callable[..., tuple[RouteEntry, ...]]:
    return core.query_assignment


def _ok() -> pb.Status:
    return pb.Status(code=pb.Code.OK, message="OK")
