"""SipHash-2-4, with the key that all RocketMQ clients share, to route message groups (client-behaviour.md,
9.4)."""

from functools import lru_cache

_MASK = 0xFFFFFFFFFFFFFFFF
_KEY0 = 0x0706050403020100
_KEY1 = 0x0F0E0D0C0B0A0908


def siphash24(data: bytes, key0: int = _KEY0, key1: int = _KEY1) -> int:
    """The unsigned 64-bit SipHash-2-4 of `data`."""
    v = [
        key0 ^ 0x736F6D6570736575,
        key1 ^ 0x646F72616E646F6D,
        key0 ^ 0x6C7967656E657261,
        key1 ^ 0x7465646279746573,
    ]
    whole = len(data) - len(data) % 8
    for start in range(0, whole, 8):
        _absorb(v, int.from_bytes(data[start : start + 8], "little"))
    _absorb(v, int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    v[2] ^= 0xFF
    for _ in range(4):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@lru_cache(maxsize=4096)
def queue_index(message_group: str, queues: int) -> int:
    """The index of the queue that `message_group` belongs to: the signed hash, modulo `queues` rounded
    downward."""
    unsigned = siphash24(message_group.encode())
    signed = unsigned - (1 << 64) if unsigned >> 63 else unsigned
    return signed % queues


def _absorb(v: list[int], word: int) -> None:
    v[3] ^= word
    _round(v)
    _round(v)
    v[0] ^= word


def _round(v: list[int]) -> None:
    v0, v1, v2, v3 = v
    v0 = (v0 + v1) & _MASK
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = (v2 + v3) & _MASK
    v3 = _rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & _MASK
    v3 = _rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & _MASK
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    v[:] = v0, v1, v2, v3


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & _MASK
