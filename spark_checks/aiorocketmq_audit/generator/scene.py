"""A scene: a few messages of their own in which one promise is broken, told row by row in seconds from its begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiorocketmq_audit.generator.shape import Shape

Row: TypeAlias = dict[str, object]
"""Columns of the recording that have a value."""

NORMAL, PICKY, ORDERED = "group-0", "group-1", "ordered-0"

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Mail:
    """A message of a scene."""

    id: str
    topic: str
    offset: int
    tag: str
    message_group: str | None
    due_us: int | None
    row: Row
    """What all rows about it say."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A delivery of a scene."""

    mail: Mail
    attempt: int
    at: float
    row: Row


class Scene:
    """Writes rows for the account of the broker, or of a client where `observer` says so."""

    def __init__(self, name: str, number: int, start_us: int, shape: Shape, observer: str = "broker") -> None:
        self.shape = shape
        self.observer = observer
        self.rows: list[Row] = []
        self.steps = [step / 1000 for step in shape.steps_ms]
        self.hold = shape.hold_ms / 1000
        self._name = f"{name.replace('.', '-')}-{number}"
        self.topic = f"scene-{self._name}"
        """Of its own, so that it disturbs nobody's queues, polls and drains."""
        self._start_us = start_us
        self._count = 0

    def mail(
        self,
        offset: int = 0,
        *,
        ordered: bool = False,
        tag: str = "red",
        due: float | None = None,
        sent: float | None = 0.0,
        body: str = "body",
        name: str = "",
        lane: str = "",
        topic: str | None = None,
        lite_topic: str | None = None,
    ) -> Mail:
        """A message, stored at `sent` seconds by the broker's or a client's own word; None: nobody tells of it.

        Of the scene's topic, if no other one is said.
        """
        due_us = None if due is None else self._at(due)
        key = f"key-{self._name}{lane}" if ordered else None
        place: Row = {"broker": "broker-0", "queue": 0, "offset": offset}
        named: Row = {
            "topic": topic or self.topic,
            "message_id": f"planted-{self._name}-{offset}{name}",
            "message_group": key,
            "tag": tag,
        }
        if lite_topic is not None:
            named["lite_topic"] = lite_topic
        made = Mail(str(named["message_id"]), str(named["topic"]), offset, tag, key, due_us, named | place)
        if sent is not None:
            self.send(made, sent, body=body)
        return made

    def send(self, mail: Mail, at: float, *, phase: str = "ok", body: str = "body", **cells: object) -> None:
        """The call by which a message was sent, and its answer."""
        row = mail.row | {
            "client_id": "producer@0",
            "role": "producer",
            "body_sha": body,
            "due_us": mail.due_us,
        }
        row["props_sha"] = "none"
        if phase != "ok" or mail.due_us is not None:
            row |= {"broker": None, "queue": None, "offset": None}
        elif self.observer == "broker":
            row["store_us"] = self._at(at)
        self._operation("send", at, phase, row | cells)

    def deliver(
        self,
        mail: Mail,
        at: float,
        attempt: int = 1,
        *,
        group: str | None = None,
        client: str = "a",
        hold: float | None = None,
        cells: Row | None = None,
        **more: object,
    ) -> Handed:
        """The message is handed out; if nothing else is said, to the ordered group where it has a message group."""
        group = group or (ORDERED if mail.message_group else NORMAL)
        wanted = "TAG:red || green" if group == PICKY else "TAG:*"
        name = self._unique()
        row: Row = mail.row | {
            "group": group,
            "client_id": self.client(client),
            "attempt": attempt,
            "delivery": name,
            "handle": name,
            "batch": self._unique(),
            "batch_pos": 0,
            "invisible_ms": round((self.hold if hold is None else hold) * 1000),
            "filter": wanted,
            "body_sha": "body",
            "props_sha": "none",
            "due_us": mail.due_us,
        }
        if self.observer == "client":
            row |= {"role": "push", "invoked_us": self._at(at - 0.002)}
        row |= (cells or {}) | more
        self._add("deliver", at, row)
        return Handed(
            mail, attempt, at, {name: row[name] for name in (*mail.row, "group", "client_id", "delivery")}
        )

    def ack(self, of: Handed, at: float, phase: str = "ok") -> None:
        """The delivery is acknowledged."""
        self._operation("ack", at, phase, self._settling(of))

    def nack(self, of: Handed, at: float, wait: float | None = None, phase: str = "ok") -> float:
        """The message is asked for again after `wait` seconds, or the group's own step; returns when that is."""
        steps = self.steps[:1] if of.row["group"] == ORDERED else self.steps
        wait = steps[min(of.attempt, len(steps)) - 1] if wait is None else wait
        reason = "retry" if self.observer == "client" else None
        cells: Row = {"invisible_ms": round(wait * 1000), "reason": reason, "handle": self._unique()}
        self._operation("change", at, phase, self._settling(of) | cells)
        return at + wait

    def extend(self, of: Handed, at: float, seconds: float) -> None:
        """The lease is prolonged until `seconds` after `at`."""
        cells: Row = {"invisible_ms": round(seconds * 1000), "reason": "extend", "handle": self._unique()}
        self._operation("change", at, "ok", self._settling(of) | cells)

    def handle(self, of: Handed, begin: float, end: float | None, result: str = "success") -> None:
        """A push consumer's handler works on the delivery; without an end it hangs."""
        row = of.row | {"attempt": of.attempt, "delivery": None, "role": "push"}
        self._add("handle.start", begin, row)
        if end is not None:
            self._add("handle.end", end, row | {"result": result})

    def bury(self, of: Handed, at: float) -> None:
        """The message becomes a dead letter of the group, by the broker's word."""
        cells = {name: value for name, value in of.row.items() if name not in ("client_id", "delivery")}
        self._add("dlq.deliver", at, cells | {"attempt": of.attempt})

    def poll(
        self, call: float, at: float, group: str = NORMAL, *, topic: str | None = None, **cells: object
    ) -> str:
        """A poll of all queues that was open from `call` to `at`, and then answered; returns its id.

        Of the scene's topic, if no other one is said.
        """
        name = self._unique()
        row: Row = {
            "topic": topic or self.topic,
            "group": group,
            "client_id": self.client("a"),
            "phase": "ok",
            "op_id": name,
        }
        row |= cells
        if self.observer == "client":
            called: Row = row | {"phase": "invoke", "role": "push"}
            self._add("receive", call, called)
        self._add("receive", at, row | {"invoked_us": self._at(call)})
        return name

    def climb(self, mail: Mail, at: float, last: int, *, group: str | None = None) -> Handed:
        """Deliver again and again, failing each time and honestly waiting, up to attempt `last`, which stays open."""
        given = self.deliver(mail, at, group=group)
        for attempt in range(2, last + 1):
            back = self.nack(given, given.at + 0.1)
            given = self.deliver(mail, back + 0.05, attempt, group=group)
        return given

    def note(self, kind: str, at: float, **cells: object) -> None:
        """Any other row."""
        self._add(kind, at, cells)

    def operation(
        self, kind: str, at: float, phase: str = "ok", *, cells: Row | None = None, **more: object
    ) -> None:
        """Any other call with its answer."""
        self._operation(kind, at, phase, (cells or {}) | more)

    def client(self, name: str) -> str:
        """The id of one of the scene's own clients."""
        return f"{self._name}@{name}"

    def instant(self, at: float) -> int:
        """Microseconds of the recording's clock."""
        return self._at(at)

    def place(self, mail: Mail) -> Row:
        """The queue of a message."""
        return {name: mail.row[name] for name in ("topic", "broker", "queue")}

    def _settling(self, of: Handed) -> Row:
        row = of.row | {"attempt": of.attempt, "handle": of.row["delivery"]}
        return row | ({"role": "push"} if self.observer == "client" else {})

    def _operation(self, kind: str, at: float, phase: str, cells: Row) -> None:
        name = self._unique()
        if self.observer == "client":
            self._add(kind, at - 0.001, cells | {"phase": "invoke", "op_id": name})
            self._add(kind, at, {"phase": phase, "op_id": name, "invoked_us": self._at(at - 0.001)} | cells)
        else:
            self._add(kind, at, cells | {"phase": phase, "invoked_us": self._at(at)})

    def _add(self, kind: str, at: float, cells: Row) -> None:
        self.rows.append({"kind": kind, "t_wall_us": self._at(at), "observer": self.observer} | cells)

    def _at(self, seconds: float) -> int:
        return self._start_us + round(seconds * _SECOND)

    def _unique(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"
