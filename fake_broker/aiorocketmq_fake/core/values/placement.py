"""Which queue a message goes to: the server's hash of message groups, bit for bit."""

from functools import lru_cache

_MASK = (1 << 64) - 1
_MULTIPLIER = 2_862_933_555_777_941_757


def java_hash(text: str) -> int:
    """Compute the signed 32-bit hash of Java strings, over UTF-16 units (R4.9, R5.23)."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] | units[index + 1] << 8)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@lru_cache(maxsize=65_536)
def queue_of_group(message_group: str, queues: int) -> int:
    """Choose the queue of a message group among `queues`, which must be at least 1 (R4.8, R4.9)."""
    state = java_hash(message_group) & _MASK
    chosen = 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        fraction = ((state >> 33) + 1) / (1 << 31)
        following = int((chosen + 1) / fraction)
        if not 0 <= following < queues:
            return chosen
        chosen = following
