"""Makes requests of any method from the wire's own descriptors: plausible ones, damaged ones, and noise."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from typing import Any

from aiorocketmq.wire.methods import METHODS, Method
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tools.fuzzing.sense import Memory, make_sense

__all__ = ["Kind", "Maker"]

# Any: the types of descriptors differ between the runtimes of protobuf.
Field = FieldDescriptor

TOPICS = (*("normal", "fifo", "delay", "transaction") * 3, "readonly", "%DLQ%group", "%RETRY%group_normal")
GROUPS = ("group", "ordered")
# What plausible requests say, by the name of a field; its message's own name comes first where both are known.
WORDS: dict[str, tuple[Any, ...]] = {
    "Message.topic": TOPICS,
    "topic": TOPICS,
    "group": GROUPS,
    "tag": ("", "a", "b"),
    "keys": ("k1", "k2"),
    "message_group": ("", "", "g1", "g2"),
    "expression": ("*", "*", "a", "a || b", "n > 1", "TAGS = 'a'", ""),
    "batch_size": (1, 1, 8, 32),
    "offset": (0, 1, 2, 5),
    "id": (-1, 0, 1),
    "lite_topic": ("", "", "lite"),
    "priority": (0, 1, 5),
    "body": (b"1", b"body", b"\xff\x00", bytes(2000)),
    "attempt_id": ("", "attempt-1"),
    "client_type": (1, 2, 3, 4),
    "host": ("127.0.0.1",),
    "port": (8081,),
    "resource_namespace": ("", "", "", "", "", "", "", "ns"),
    "max_attempts": (3, 16),
    "born_host": ("", "10.0.0.1:5"),
}
ODD_TEXTS = (
    *("", " ", "\x00", "a\nb", "%", "%%", "|", "||", "\u200b", "é" * 70, "x" * 64, "x" * 128, "x" * 20_000),
    *("TBW102", "rmq_sys_x", "CID_RMQ_SYS_x", "%RETRY%", "%DLQ%", "-1", "1 2 3 4 5 6 7 8 9", "\U0001f600"),
    *("0 " * 9, "9" * 400, "NaN", "(" * 5000, "NOT " * 2000 + "a", "a IS NULL " * 50, "'", "UNIQ_KEY"),
)
ODD_NUMBERS = (0, 1, -1, 2, 31, 33, 127, 128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 10**9, 999_999_999)
RANGES = {
    Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    Field.TYPE_ENUM: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    Field.TYPE_UINT32: (0, 2**32 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1),
}
DEEPEST = 5
# Fields whose values come from earlier answers.
FROM_ANSWERS = frozenset({"receipt_handle", "message_id", "transaction_id", "recall_handle", "nonce"})


class Kind(Enum):
    """How much sense a request makes."""

    VALID = "every field plausible"
    DAMAGED = "plausible but for one to three fields"
    RANDOM = "any value in any field"
    NOISE = "bytes that may be no message at all"


class Maker:
    """Makes requests by the choices of one random source; a Hypothesis one makes them shrink."""

    def __init__(
        self,
        rng: random.Random,
        methods: Mapping[str, Method] = METHODS,
        words: Mapping[str, tuple[Any, ...]] = WORDS,
    ) -> None:
        """Make requests of `methods`, the plausible ones of `words`. Any: of the type of their field."""
        self._rng = rng
        self._methods = methods
        self._words = words
        self.memory = Memory()
        """What the broker has answered."""

    def request(self, method: str, kind: Kind) -> bytes:
        """Return the bytes of one request."""
        rng = self._rng
        message: Message = self._methods[method].request()
        if kind is Kind.RANDOM:
            self._fill_randomly(message, 0)
        else:
            self._fill_plausibly(message, 0)
            if rng.random() < 0.85:
                make_sense(method, message, rng, self.memory)
        if kind is Kind.DAMAGED:
            for _ in range(rng.randint(1, 3)):
                self._damage(message)
        payload = message.SerializeToString()
        return self._garble(payload) if kind is Kind.NOISE else payload

    # Plausible

    def _fill_plausibly(self, message: Message, depth: int) -> None:
        rng = self._rng
        chosen = {
            each.name: rng.choice([field.name for field in each.fields]) for each in message.DESCRIPTOR.oneofs
        }
        for field in message.DESCRIPTOR.fields:
            oneof = field.containing_oneof
            if oneof is not None and len(oneof.fields) > 1 and chosen[oneof.name] != field.name:
                continue
            if field.has_presence and field.message_type is None and rng.random() < 0.5:
                continue
            self._set_plausibly(message, field, depth)

    def _set_plausibly(self, message: Message, field: Any, depth: int) -> None:
        rng = self._rng
        holder: Any = message
        if _is_repeated(field):
            count = (
                rng.choice((1, 1, 1, 2, 3))
                if field.name in ("messages", "entries", "topics")
                else rng.randint(0, 2)
            )
            self._repeat(holder, field, count, lambda inner: self._fill_plausibly(inner, depth + 1))
        elif field.message_type is not None:
            self._fill_known(getattr(holder, field.name), field, depth)
        else:
            setattr(holder, field.name, self._word(field))

    def _fill_known(self, inner: Any, field: Any, depth: int) -> None:
        rng = self._rng
        match field.message_type.name:
            case "Resource":
                inner.name = rng.choice(self._words.get(field.name, TOPICS))
                inner.resource_namespace = rng.choice(self._words["resource_namespace"])
            case "Duration":
                inner.seconds = rng.choice((0, 1, 10, 30, 3600))
            case "Timestamp":
                inner.seconds = rng.choice((0, 1_800_000_000, 1_800_000_030, 1_800_080_000))
            case _ if depth < DEEPEST:
                inner.SetInParent()
                self._fill_plausibly(inner, depth + 1)

    def _word(self, field: Any) -> Any:
        """Return a plausible value. Any: of the field's own type."""
        rng = self._rng
        if field.name in FROM_ANSWERS:
            return f"made-up-{rng.randint(0, 9)}"
        if field.name in self._words:
            word = rng.choice(self._words[field.name])
            if isinstance(word, {Field.TYPE_STRING: str, Field.TYPE_BYTES: bytes}.get(field.type, int)):
                return word
        match field.type:
            case Field.TYPE_STRING:
                return rng.choice(("", "text", "n"))
            case Field.TYPE_BYTES:
                return b"bytes"
            case Field.TYPE_BOOL:
                return rng.random() < 0.5
            case Field.TYPE_ENUM:
                assert field.enum_type is not None
                return rng.choice(field.enum_type.values).number
            case Field.TYPE_FLOAT | Field.TYPE_DOUBLE:
                return rng.choice((0.0, 1.0, 2.0))
            case _:
                return rng.choice((0, 1, 2, 16))

    # Anything

    def _fill_randomly(self, message: Message, depth: int) -> None:
        rng = self._rng
        for field in message.DESCRIPTOR.fields:
            if rng.random() < 0.7:
                self._set_oddly(message, field, depth)

    def _set_oddly(self, message: Message, field: Any, depth: int) -> None:
        rng = self._rng
        holder: Any = message
        if _is_repeated(field):
            count = rng.choice((0, 1, 2, 5, 40))
            if depth < DEEPEST:
                self._repeat(holder, field, count, lambda inner: self._fill_randomly(inner, depth + 1))
        elif field.message_type is not None:
            inner = getattr(holder, field.name)
            inner.SetInParent()
            if depth < DEEPEST:
                self._fill_randomly(inner, depth + 1)
        else:
            setattr(holder, field.name, self._odd(field))

    def _odd(self, field: Any) -> Any:
        """Return any value of a field's type. Any: of that type."""
        rng = self._rng
        if rng.random() < 0.25:
            return self._word(field)
        match field.type:
            case Field.TYPE_STRING:
                return rng.choice(ODD_TEXTS)
            case Field.TYPE_BYTES:
                return rng.choice((b"", b"\x00", rng.randbytes(rng.randint(0, 64)), bytes(5_000)))
            case Field.TYPE_BOOL:
                return rng.random() < 0.5
            case Field.TYPE_FLOAT | Field.TYPE_DOUBLE:
                return rng.choice((0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan")))
            case number:
                low, high = RANGES[number]
                odd = rng.choice(ODD_NUMBERS) if rng.random() < 0.8 else rng.randint(low, high)
                return min(max(odd, low), high)

    def _repeat(self, holder: Any, field: Any, count: int, fill: Any) -> None:
        """Add elements to a repeated field or a map. Any: its container has no common type."""
        container = getattr(holder, field.name)
        entry = field.message_type
        for number in range(count):
            if entry is not None and entry.GetOptions().map_entry:
                self._put(container, entry, number)
            elif entry is not None:
                fill(container.add())
            else:
                container.append(self._word(field) if self._rng.random() < 0.8 else self._odd(field))

    def _put(self, container: Any, entry: Any, number: int) -> None:
        """Add to a map. Any: as above."""
        value = entry.fields_by_name["value"]
        if self._rng.random() < 0.8:
            container[f"k{number}"] = "3"
        else:
            container[self._rng.choice(ODD_TEXTS)] = self._odd(value)

    # Damage

    def _damage(self, message: Message) -> None:
        """Change one field, somewhere."""
        rng = self._rng
        target: Any = message  # its class is found by chance
        for depth in range(rng.randint(0, 3)):
            inner = [
                value
                for field, value in target.ListFields()
                if field.message_type is not None and depth < DEEPEST
            ]
            inner = [value for value in inner if isinstance(value, Message)]
            if not inner:
                break
            target = rng.choice(inner)
        if not target.DESCRIPTOR.fields:
            return
        field = rng.choice(target.DESCRIPTOR.fields)
        target.ClearField(field.name)
        if rng.random() < 0.7:
            self._set_oddly(target, field, DEEPEST - 1)

    def _garble(self, payload: bytes) -> bytes:
        """Return bytes that were a message once."""
        rng = self._rng
        match rng.randint(0, 4):
            case 0:
                return rng.randbytes(rng.randint(0, 200))
            case 1:
                return payload[: rng.randint(0, len(payload))]
            case 2:
                return payload + rng.randbytes(rng.randint(1, 20))
            case 3:
                # A field that no schema of ours knows: to be ignored.
                return payload + b"\xf2\x7f\x03abc"
            case _:
                garbled = bytearray(payload)
                for _ in range(rng.randint(1, 5)):
                    if garbled:
                        garbled[rng.randrange(len(garbled))] = rng.randint(0, 255)
                return bytes(garbled)


def _is_repeated(field: Any) -> bool:
    """Whether a field holds a list or a map. Any: the older and the newer way to ask."""
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)
