"""Receipt handles: encoding and parsing.

Nine fields joined by spaces, as servers make them (6.1); a changed handle has a constant tenth before the last one
(consumption §2), which makes servers dead-letter the wrong message.
"""

from dataclasses import dataclass

from aiorocketmq_fake.core.values import limits


@dataclass(frozen=True, slots=True)
class Handle:
    """A parsed receipt handle. Times are milliseconds."""

    start: int
    popped: int
    invisible: int
    revive_queue: int
    is_retry: bool
    broker: str
    queue_id: int
    offset: int
    position: int | None
    """Log position; None if the handle was truncated, 0 if a changed handle hides it."""
    changed: bool

    @property
    def expires(self) -> int:
        """End of the lease according to the handle."""
        return self.popped + self.invisible

    @property
    def is_ordered(self) -> bool:
        """True for deliveries to ordered groups."""
        return self.revive_queue == limits.ORDERED_REVIVE_QUEUE


def encode(
    start: int,
    popped: int,
    invisible: int,
    revive_queue: int,
    is_retry: bool,
    broker: str,
    queue_id: int,
    offset: int,
    position: int,
    changed: bool = False,
) -> str:
    """Return the text of a handle."""
    kind = "1" if is_retry else "0"
    hidden = "0 " if changed else ""
    return (
        f"{start} {popped} {invisible} {revive_queue} {kind} {broker} {queue_id} {offset} {hidden}{position}"
    )


def decode(text: str) -> Handle | None:
    """Parse a handle; None if it is not one (R6.2)."""
    fields = text.split(" ")
    if len(fields) < 8:
        return None
    try:
        start, popped, invisible, revive_queue = map(int, fields[:4])
        int(fields[4])
        queue_id, offset = int(fields[6]), int(fields[7])
        # Servers read the ninth field as the position, which in a changed handle is the constant.
        position = int(fields[8]) if len(fields) > 8 else None
    except ValueError:
        return None
    return Handle(
        start,
        popped,
        invisible,
        revive_queue,
        fields[4] == "1",
        fields[5],
        queue_id,
        offset,
        position,
        len(fields) > 9,
    )
