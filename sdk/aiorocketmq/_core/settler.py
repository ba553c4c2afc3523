"""What a received message needs in order to be settled."""

from typing import Protocol, TypeVar

Message_contra = TypeVar("Message_contra", contravariant=True)


class SettlerOf(Protocol[Message_contra]):
    """Settles received messages; each consumer gives its own to the messages that it receives."""

    async def settle_one(self, message: Message_contra) -> None:
        """Acknowledge."""

    async def change(self, message: Message_contra, seconds: float) -> None:
        """Keep the message for `seconds` from now."""

    async def give_back(self, message: Message_contra) -> None:
        """Release the lease, so that the message is redelivered."""

    async def abandon(self, message: Message_contra) -> None:
        """Release the message after its handling failed; bounded, shielded, without an error of its own."""
