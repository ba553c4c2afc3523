"""Player of scenarios: separate messages for which one invariant is violated, or appears to be.

A scenario is a text of steps, separated by `;`. A step is `TIME VERB [MESSAGES] [NAME=VALUE]... [!]`, such as
`1+H deliver m0/2 client=b ack=.5 !`.

TIME      Seconds from the begin, or several, separated by commas: sums of numbers and of H (the lease), S and
          S2 (the waits after a first and a second attempt), N (the most attempts), t (the time of the step before) and
          back (when the message that was retried last is available again).
VERB      A kind of event, or `unsent` (writes nothing), `nack` and `extend` (changes of a lease), `pull` (delivery to a
          pull consumer), `climb` (failing deliveries up to an attempt, which stays open), `handle` (a push consumer's
          handler, which ends if there is an until=TIME).
MESSAGES  Separated by commas: m3 is at offset 3, o3 as well with a message group; a suffix of letters distinguishes
          messages at one offset; m3/2 is its second attempt. Messages delivered by one step are in one answer.
NAME      A column; client, one of the scenario's; of a delivery ack and nack, the seconds after which it is settled,
          and asked, for how long its poll was open; for, the seconds from a call to its answer; wait, of a change.
VALUE     `none`; a TIME in columns of microseconds; KEY:TEXT in maps; `*` in texts is the scenario's topic.
!         An expected finding: of the delivery if the step is one (or its handler), else of the message; `!!` two.

A step with a range such as {0-3} is played for each of its numbers, which replaces it and each {}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from aiorocketmq.recording_format import arrow_schema

from aiorocketmq_audit.generator.shape import Shape

Row: TypeAlias = dict[str, Any]
"""Columns of the recording with a value, each of its column's type."""

Options: TypeAlias = dict[str, str]

_DEFAULTS = {
    "pull": "group=pullers role=pull epoch=1 invisible_ms=none",
    "receive": "group=group-0 client=a",
    "reset": "group=group-0",
    "drain.ok": "group=group-0",
    "client.crash": "topic=none group=group-0 client=a",
    "fault": "topic=none",
    "config": "topic=none",
    "assign": "group=pullers client=a role=pull epoch=1",
    "commit": "group=pullers broker=broker-0 queue=0",
    "tx.end": "tx_id=T resolution=commit",
    "tx.check": "tx_id=T",
    "lite.sync": "group=group-0 client=a",
    **dict.fromkeys(("lock", "unlock"), "group=lockers client=a role=push broker=broker-0 queue=0"),
}
"""Default options of steps."""

_CALLS = ("receive", "tx.end", "recall", "lite.sync", "lock", "unlock")
_SETTLEMENTS = {"ack": "ack", "nack": "change", "extend": "change", "forward": "forward"}
_OPTIONS = {"client", "ack", "nack", "asked", "for", "wait", "until"}
_PLACE = ("broker", "queue", "offset")
_OF_MESSAGE = ("topic", "lite_topic", "message_group", "tag", "due_us")
_ABOUT = (
    "topic lite_topic broker queue offset message_id message_group tag group client_id role attempt delivery"
)
"""Columns of a delivery that other rows repeat."""

_TERM = re.compile(r"([+-]?)(\d*\.?\d*)([a-zA-Z]\w*)?")
_RANGE = re.compile(r"\{(\d+)-(\d+)\}")


class Scenario:
    """Rows as observed by the broker, or by clients if `observer` is `client`."""

    def __init__(self, name: str, number: int, start_us: int, shape: Shape, observer: str) -> None:
        self.rows: list[Row] = []
        self.expected: list[tuple[str, str, int | None]] = []
        """Topic, message and attempt (None: the message itself) of expected findings."""
        self._name = f"{name.replace('.', '-')}-{number}"
        self._topic = f"scene-{self._name}"
        """A separate topic, so that no other queue, poll or drain is affected."""
        self._start_us = start_us
        self._observer = observer
        self._by_client = observer == "client"
        self._steps = [step / 1000 for step in shape.steps_ms]
        self._values = {"H": shape.hold_ms / 1000, "N": float(shape.max_attempts), "t": 0.0, "back": 0.0}
        self._values |= {"S": self._steps[0], "S2": self._steps[:2][-1]}
        self._messages: dict[str, Row] = {}
        self._last: dict[str, Row] = {}
        """The last delivery of each message."""
        self._ids = 0

    def play(self, script: str) -> None:
        """Append the rows of all steps; KeyError or ValueError for an invalid step."""
        for step in _steps(script):
            when, verb, *words = step.split()
            marks = words.pop().count("!") if words and words[-1].strip("!") == "" else 0
            subjects = words.pop(0).split(",") if words and "=" not in words[0] else []
            options = dict(word.split("=", 1) for word in (*_DEFAULTS.get(verb, "").split(), *words))
            if unknown := options.keys() - _OPTIONS - set(arrow_schema().names):
                raise ValueError(f"no column or option: {', '.join(unknown)} in {step}")
            for moment in when.split(","):
                at = self._values["t"] = self._sum(moment)
                self._step(verb, at, subjects, options)
            for subject in subjects * marks:
                name = subject.partition("/")[0]
                row, attempt = self._messages[name], None
                if verb in ("deliver", "handle"):
                    attempt = self._last[name]["attempt"]
                self.expected.append((row["topic"], row["message_id"], attempt))

    def _step(self, verb: str, at: float, subjects: list[str], options: Options) -> None:
        match verb:
            case "deliver" | "pull":
                self._answer(at, subjects, options)
            case "climb":
                for subject in subjects:
                    self._climb(subject, at, options)
            case "unsent" | "send":
                for subject in subjects:
                    self._send(verb, subject, at, options)
            case "handle":
                for subject in subjects:
                    self._handle(subject, at, options)
            case "ack" | "nack" | "extend" | "forward" | "dlq.deliver":
                for subject in subjects:
                    self._settle(verb, subject, at, options)
            case _:
                about = {"message_id": self._messages[subjects[0]]["message_id"]} if subjects else {}
                self._other(verb, at, about, options)

    def _message(self, name: str, cells: Row) -> Row:
        if name not in self._messages:
            self._messages[name] = {
                "topic": self._topic,
                "broker": "broker-0",
                "queue": 0,
                "offset": int(re.findall(r"\d+", name)[0]),
                "message_id": f"planted-{self._name}-{name}",
                "message_group": f"key-{self._name}" if name.startswith("o") else None,
                "tag": "red",
            } | {column: cells[column] for column in _OF_MESSAGE if column in cells}
        return self._messages[name]

    def _send(self, verb: str, name: str, at: float, options: Options) -> None:
        cells = self._cells(options)
        sender = {"client_id": "producer@0", "role": "producer", "body_sha": "body", "props_sha": "none"}
        row = self._message(name, cells) | sender
        if options.get("phase", "ok") != "ok" or "tx_id" in options or "due_us" in row:
            row |= dict.fromkeys(_PLACE)
        elif not self._by_client:
            row["store_us"] = self._instant(at)
        if verb == "send":
            self._call("send", at, row | cells, options)

    def _answer(self, at: float, subjects: list[str], options: Options) -> None:
        """Deliver messages in one answer."""
        batch = self._unique()
        for position, subject in enumerate(subjects):
            name, _, attempt = subject.partition("/")
            own: Row = {"attempt": round(self._sum(attempt or "1")), "batch": batch, "batch_pos": position}
            row = self._last[name] = self._delivery(name, at, own | self._cells(options))
            if "asked" in options and not position:
                poll: Row = {"topic": self._topic, "op_id": batch}
                poll |= {column: row.get(column) for column in ("group", "client_id", "role")}
                self._call("receive", at, poll, {"for": options["asked"]})
            self._add("deliver", at, row)
            for verb in ("ack", "nack"):
                if verb in options:
                    self._settle(verb, name, at + self._sum(options[verb]), {})

    def _delivery(self, name: str, at: float, cells: Row) -> Row:
        message = self._message(name, {})
        group = cells.get("group") or ("ordered-0" if message["message_group"] else "group-0")
        row = message | {
            "group": group,
            "client_id": self._client("a"),
            "delivery": self._unique(),
            "invisible_ms": round(self._values["H"] * 1000),
            "filter": "TAG:red || green" if group == "group-1" else "TAG:*",
            "body_sha": "body",
            "props_sha": "none",
        }
        if self._by_client:
            row |= {"role": "push", "invoked_us": self._instant(at - 0.002)}
        elif "lite_topic" in message:
            row["role"] = "lite"
        row |= cells
        return row | {"handle": row["delivery"]}

    def _settle(self, verb: str, name: str, at: float, options: Options) -> None:
        """Acknowledge, change or forward the last delivery, or make it a dead letter."""
        delivery = self._last[name]
        row = {column: delivery.get(column) for column in _ABOUT.split()} | self._cells(options)
        if verb == "dlq.deliver":
            self._add(verb, at, row | {"client_id": None, "delivery": None})
            return
        row["handle"] = row["delivery"]
        if verb in ("nack", "extend"):
            steps = self._steps[:1] if delivery["group"] == "ordered-0" else self._steps
            step = steps[min(delivery["attempt"], len(steps)) - 1]
            wait = self._sum(options["wait"]) if "wait" in options else step
            row |= {"invisible_ms": round(wait * 1000), "handle": self._unique()}
            row["reason"] = "extend" if verb == "extend" else "retry" if self._by_client else None
            self._values["back"] = at + wait
        self._call(_SETTLEMENTS[verb], at, row, options)

    def _climb(self, subject: str, at: float, options: Options) -> None:
        name, _, last = subject.partition("/")
        self._answer(at, [name], options)
        for attempt in range(2, round(self._sum(last)) + 1):
            self._settle("nack", name, at + 0.1, {})
            at = self._values["back"] + 0.05
            self._answer(at, [f"{name}/{attempt}"], options)
        self._values["t"] = at

    def _handle(self, name: str, at: float, options: Options) -> None:
        row = {column: self._last[name].get(column) for column in _ABOUT.split()} | {"delivery": None}
        self._add("handle.start", at, row)
        if "until" in options:
            self._add("handle.end", self._sum(options["until"]), row | {"result": "success"})

    def _other(self, kind: str, at: float, about: Row, options: Options) -> None:
        row: Row = {"topic": self._topic} | about
        if kind in ("receive", "lite.sync"):
            row["role"] = "push" if self._by_client else "lite" if kind == "lite.sync" else None
        row |= self._cells(options)
        if kind in _CALLS and options.get("phase") != "none":
            self._call(kind, at, row, options)
        elif kind in (*_DEFAULTS, "recall"):
            self._add(kind, at, row)
        else:
            raise ValueError(f"no verb: {kind}")

    def _call(self, kind: str, at: float, row: Row, options: Options) -> None:
        """Add a call and its answer; a broker records one row for both."""
        call = at - self._sum(options.get("for", ".001" if self._by_client else "0"))
        if self._by_client or kind == "receive":
            row = {"op_id": self._unique()} | row
        if self._by_client:
            self._add(kind, call, row | {"phase": "invoke"})
        self._add(kind, at, {"phase": "ok", "invoked_us": self._instant(call)} | row)

    def _add(self, kind: str, at: float, row: Row) -> None:
        self.rows.append({"kind": kind, "t_wall_us": self._instant(at), "observer": self._observer} | row)

    def _cells(self, options: Options) -> Row:
        """Return the columns among the options."""
        cells = {
            name: self._value(name, text) for name, text in options.items() if name in arrow_schema().names
        }
        return cells | ({"client_id": self._client(options["client"])} if "client" in options else {})

    def _value(self, column: str, text: str) -> Any:
        kind = arrow_schema().field(column).type
        if text == "none":
            return None
        if column == "queues":
            return [{"broker": "broker-0", "queue": int(queue)} for queue in text.split(",") if queue]
        if pa.types.is_map(kind):
            return dict([text.split(":")])
        if pa.types.is_integer(kind):
            return self._instant(self._sum(text)) if column.endswith("_us") else int(text)
        return text.replace("*", self._topic)

    def _sum(self, text: str) -> float:
        """Return the value of a sum such as `2H+.5`: seconds, or attempts."""
        terms = [term for term in _TERM.finditer(text) if term[0]]
        if not terms or sum(len(term[0]) for term in terms) != len(text):
            raise ValueError(f"no sum: {text}")
        return sum(
            float(f"{each[1]}{each[2] or 1}") * (self._values[each[3]] if each[3] else 1) for each in terms
        )

    def _instant(self, at: float) -> int:
        return self._start_us + round(at * 1_000_000)

    def _client(self, name: str) -> str:
        return f"{self._name}@{name}"

    def _unique(self) -> str:
        self._ids += 1
        return f"{self._name}-{self._ids}"


def _steps(script: str) -> Iterator[str]:
    for step in script.split(";"):
        span = _RANGE.search(step)
        for number in range(int(span[1]), int(span[2]) + 1) if span else (0,):
            yield _RANGE.sub(str(number), step).replace("{}", str(number))
