"""The core of the fake with hooks to change requests and responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    Delivery,
    OutgoingMessage,
    Output,
    Parked,
    PollAnswered,
    Received,
    ReceiveRequest,
    SendOutcome,
)
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.snapshots import Lease


class Tampering(Broker):
    """A core whose every receive passes through `asked` and `handed`, and every sent message through `stored`.

    It only uses commands of the core, so that a mutant stays one change whatever the core is made of.
    """

    def __init__(self, profile: Profile, **given: Any) -> None:  # Any: whatever the core takes
        super().__init__(profile, **given)
        self._waiting: dict[int, ReceiveRequest] = {}

    # Places to change

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        """Change a message of a send."""
        return message

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        """Change the request of a receive."""
        return request

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        """Change the response to a receive, parked or not."""
        deliveries = tuple(self.delivered(request, delivery) for delivery in answer.deliveries)
        return replace(answer, deliveries=deliveries)

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        """Change one delivery."""
        return delivery

    # What mutants are made of

    def lease_of(self, handle: str) -> Lease | None:
        """Return the live lease of a handle, of any group and topic."""
        return next((lease for lease in self.leases() if lease.receipt_handle == handle), None)

    def settle(self, client_id: str, group: str, delivery: Delivery) -> None:
        """Ack a delivery without a request of the consumer."""
        entry = AckEntry(delivery.message.content.message_id, delivery.receipt_handle)
        request = AckRequest(client_id, group, delivery.message.content.topic, (entry,))
        Broker.ack(self, request, now=self.now)

    # The core's commands

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        """Store the messages as changed by `stored`."""
        return super().send(tuple(map(self.stored, messages)), now=now, client_id=client_id)

    def send_classic(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = "", new_queues: int = 0
    ) -> tuple[SendOutcome, ...]:
        """The same over remoting."""
        changed = tuple(map(self.stored, messages))
        return super().send_classic(changed, now=now, client_id=client_id, new_queues=new_queues)

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        """Respond as changed by `handed`."""
        received = super().receive(self.asked(request), now=now)
        if isinstance(received, Parked):
            self._waiting[received.poll_id] = request
            return received
        return self.handed(request, received)

    def take_outputs(self) -> tuple[Output, ...]:
        """The same for polls that were parked."""
        return tuple(map(self._output, super().take_outputs()))

    def _output(self, output: Output) -> Output:
        if isinstance(output, PollAnswered) and isinstance(output.result, Received):
            request = self._waiting.pop(output.poll_id)
            return PollAnswered(output.poll_id, self.handed(request, output.result))
        return output


def content(delivery: Delivery, **changes: object) -> Delivery:
    """Return the delivery with other content."""
    changed = replace(delivery.message.content, **changes)  # type: ignore[arg-type]  # fields of OutgoingMessage
    return replace(delivery, message=replace(delivery.message, content=changed))
