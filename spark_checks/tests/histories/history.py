"""Rows of one case, written by hand."""

from __future__ import annotations

from typing import Any

from aiorocketmq_audit.recording.schema import COLUMNS

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
"""When histories begin, in microseconds since 1970."""


class History:
    """Rows of one case, written by hand: times in seconds, an operation's `call` before its `at`."""

    def __init__(
        self, case: str = "", *, observer: str = "client", recorder: str = "r1", group: str = "g"
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self._common = {
            "run_id": "run",
            "case_id": case,
            "observer": observer,
            "recorder": f"{recorder}{case}",
            "boot": "b",
        }
        self._group = group
        self._add("recorder.start", 0, cfg={"version": "1"})

    def config(self, **cfg: object) -> None:
        texts = {name: str(value).lower() for name, value in cfg.items()}
        self._add("config", 0, group=self._group, cfg=texts)

    def deliver(
        self, message: str, at: float, *, call: float | None = None, hold: float | None = 30, **more: Any
    ) -> int:
        more.setdefault("delivery", f"{message}@{len(self.rows)}")
        more.setdefault("batch", f"batch-{len(self.rows)}")
        cells = self._about(message) | {
            "invisible_ms": None if hold is None else int(hold * 1000),
            "attempt": 1,
            "filter": "TAG:*",
        }
        return self._add("deliver", at, call=at if call is None else call, **(cells | more))

    def send(self, message: str, at: float, *, body: str = "body", phase: str = "ok", **more: Any) -> int:
        cells = {
            "message_id": message,
            "message_group": message.partition("/")[0] or None,
            "topic": "t",
            "body_sha": body,
            "role": "producer",
        }
        return self._add("send", at, call=at, phase=phase, **(cells | more))

    def settle(
        self,
        kind: str,
        delivered: int,
        at: float,
        *,
        call: float | None = None,
        phase: str = "ok",
        **more: Any,
    ) -> int:
        """An ack, change or forward of the delivery in row `delivered`; `seconds` is a change's new hold."""
        of = self.rows[delivered]
        same = (
            "topic",
            "group",
            "broker",
            "queue",
            "offset",
            "message_id",
            "message_group",
            "delivery",
            "attempt",
        )
        cells = {name: of[name] for name in same} | {"client_id": of["client_id"]}
        if (seconds := more.pop("seconds", None)) is not None:
            cells["invisible_ms"] = int(seconds * 1000)
        op_id = f"op{len(self.rows)}"
        if phase == "invoke":
            return self._add(kind, at, phase="invoke", op_id=op_id, **(cells | more))
        called = self._add(kind, at if call is None else call, phase="invoke", op_id=op_id, **(cells | more))
        call_at = (self.rows[called]["t_wall_us"] - START) / SECOND
        return self._add(
            kind, at, call=call_at, invoked_seq=called, phase=phase, op_id=op_id, **(cells | more)
        )

    def bury(self, delivered: int, at: float, **more: Any) -> int:
        """The message of the delivery in row `delivered` becomes a dead letter."""
        same = ("topic", "group", "broker", "queue", "offset", "message_id", "message_group", "attempt")
        return self._add("dlq.deliver", at, **({name: self.rows[delivered][name] for name in same} | more))

    def poll(self, call: float, at: float, **more: Any) -> int:
        cells = {"topic": "t", "group": self._group, "phase": "ok"}
        return self._add("receive", at, call=call, **(cells | more))

    def note(self, kind: str, at: float, **more: Any) -> int:
        return self._add(kind, at, **more)

    def end(self) -> History:
        last = max(row["t_wall_us"] for row in self.rows)
        self._add("recorder.end", (last - START) / SECOND)
        return self

    def _about(self, message: str) -> dict[str, Any]:
        """A message is named "group/offset", or "/offset" without a message group."""
        name, _, offset = message.partition("/")
        return {
            "topic": "t",
            "group": self._group,
            "broker": "b",
            "queue": 0,
            "offset": int(offset),
            "message_id": message,
            "message_group": name or None,
            "client_id": "c1",
        }

    def _add(self, kind: str, at: float, *, call: float | None = None, **cells: Any) -> int:
        wall = START + round(at * SECOND)
        row = dict.fromkeys(COLUMNS) | self._common | {"kind": kind, "seq": len(self.rows), "t_wall_us": wall}
        row |= {
            "t_mono_ns": wall * 1000,
            "invoked_us": None if call is None else START + round(call * SECOND),
        }
        self.rows.append(row | cells)
        return len(self.rows) - 1
