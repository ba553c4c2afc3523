"""Writes small histories: one call after the other, each taking no time unless a test says so."""

from __future__ import annotations

from typing import Any

from aiorocketmq_conformance.explore.expressions import tags
from aiorocketmq_conformance.model.calls import (
    UNKNOWN,
    Ack,
    Assignment,
    Change,
    Check,
    Commit,
    Committed,
    Content,
    Delivered,
    Drained,
    Ends,
    EndTransaction,
    Forward,
    Gone,
    GroupCreated,
    Instant,
    Joined,
    Lag,
    Left,
    Lock,
    Members,
    Noticed,
    Occurrence,
    Outgoing,
    Pause,
    Pull,
    Recall,
    Receipt,
    Receive,
    Reset,
    Restart,
    Route,
    Send,
    Settings,
    TopicCreated,
    Trim,
    Unlock,
)
from aiorocketmq_conformance.model.judgement import judge
from aiorocketmq_conformance.model.semantics import Semantics, semantics_of
from aiorocketmq_conformance.targets.declarations import APACHE_NUMBERS, DOCUMENTED_NUMBERS

DOCUMENTED = semantics_of(DOCUMENTED_NUMBERS)
APACHE = semantics_of(APACHE_NUMBERS)
TOPIC, GROUP, CLIENT = "topic", "group", "consumer"
PLACE: dict[str, Any] = {"topic": TOPIC, "group": GROUP}


class Story:
    """A history with one topic and one group."""

    def __init__(
        self, *, type_: str = "NORMAL", ordered: bool = False, limit: int = 3, queues: int = 1
    ) -> None:
        self.events: list[Occurrence] = []
        self.now = 0.0
        self._step = 0
        self._type = type_
        self.handles: dict[str, str] = {}
        self.sent: dict[str, float] = {}
        self.due: dict[str, float | None] = {}
        self.events.append(TopicCreated(**self.span(), topic=TOPIC, type=type_, queues=queues))
        self.events.append(GroupCreated(**self.span(), group=GROUP, ordered=ordered, max_attempts=limit))

    def instant(self) -> Instant:
        self._step += 1
        return Instant(self.now, self._step)

    def span(self) -> dict[str, Any]:
        return {"begun": self.instant(), "ended": self.instant()}

    def at(self, seconds: float) -> Story:
        self.now = seconds
        return self

    def content(self, name: str, **changes: Any) -> Content:
        return Content(
            **{"id": name, "topic": TOPIC, "body": f"body of {name}", "message_group": "", **changes}
        )

    def send(self, *names: str, code: str = "OK", due: float | None = None, **changes: Any) -> Story:
        self.sent |= dict.fromkeys(names, self.now)
        self.due |= dict.fromkeys(names, due)
        legal = changes.pop("is_legal", True)
        messages = tuple(
            Outgoing(content=self.content(name, **changes), type=self._type, deliver_at=due, is_legal=legal)
            for name in names
        )
        receipts = tuple(Receipt("OK", -1, f"tx of {name}") for name in names) if code == "OK" else ()
        self.events.append(Send(**self.span(), messages=messages, code=code, receipts=receipts))
        return self

    def receive(
        self,
        *names: str,
        attempt: int = 1,
        begun: float | None = None,
        invisible: float = 10.0,
        code: str = "OK",
        handle: str | None = None,
        group: str = GROUP,
        topic: str = TOPIC,
        place: tuple[int, int] | None = None,
        poll: float = 5.0,
        stored: float | None = None,
        changes: dict[str, Any] | None = None,
        priorities: tuple[int, ...] = (),
        **fields: Any,
    ) -> Story:
        """Receive messages now by a poll that has waited since `begun`."""
        now, self.now = self.now, self.now if begun is None else begun
        start, self.now = self.instant(), now
        after = Instant(now, start.step)
        deliveries = []
        for index, name in enumerate(names):
            priority = priorities[index] if priorities else None
            self.handles[name] = handle or f"{name}@{self._step}"
            queue, offset = place or (0, list(self.sent).index(name) if name in self.sent else 999)
            deliveries.append(
                Delivered(
                    content=self.content(name, **{"topic": topic, "priority": priority, **(changes or {})}),
                    attempt=attempt,
                    handle=self.handles[name],
                    queue=queue,
                    offset=offset,
                    stored=self.sent.get(name, now) if stored is None else stored,
                    due=self.due.get(name),
                    after=after,
                    at=self.instant(),
                )
            )
        self.events.append(
            Receive(
                begun=start,
                ended=self.instant(),
                client=CLIENT,
                group=group,
                topic=topic,
                invisible=invisible,
                poll=poll,
                code=code,
                deliveries=tuple(deliveries),
                **{"batch": 32, **fields},
            )
        )
        return self

    def ack(self, *names: str, codes: tuple[str, ...] = (), code: str = "", **fields: Any) -> Story:
        entries = tuple((name, self.handles.get(name, name)) for name in names)
        codes = codes or ("OK",) * len(names)
        whole = code or (codes[0] if len(set(codes)) == 1 else "MULTIPLE_RESULTS")
        values = {"group": GROUP, "topic": TOPIC, "entries": entries, **fields}
        self.events.append(Ack(**self.span(), client=CLIENT, code=whole, codes=codes, **values))
        return self

    def change(
        self, name: str, seconds: float, *, code: str = "OK", new: str = "new", **fields: Any
    ) -> Story:
        self.events.append(
            Change(
                **self.span(),
                client=CLIENT,
                group=GROUP,
                topic=TOPIC,
                message=name,
                handle=self.handles[name],
                seconds=seconds,
                code=code,
                new_handle=new if code == "OK" else "",
                **fields,
            )
        )
        if code == "OK":
            self.handles[name] = new
        return self

    def forward(self, name: str, *, code: str = "OK") -> Story:
        self.events.append(
            Forward(
                **self.span(),
                client=CLIENT,
                group=GROUP,
                topic=TOPIC,
                message=name,
                handle=self.handles[name],
                code=code,
            )
        )
        return self

    def end(self, name: str, decision: str = "commit", *, code: str = "OK") -> Story:
        self.events.append(
            EndTransaction(
                **self.span(),
                topic=TOPIC,
                message=name,
                transaction=f"tx of {name}",
                decision=decision,
                code=code,
            )
        )
        return self

    def recall(self, name: str, *, code: str = "OK") -> Story:
        self.events.append(Recall(**self.span(), topic=TOPIC, message=name, code=code))
        return self

    def reset(self, *, to_end: bool, to: float | None = None) -> Story:
        self.events.append(Reset(**self.span(), group=GROUP, topic=TOPIC, to_end=to_end, at=to))
        return self

    def settings(self, *, ordered: bool, attempts: int) -> Story:
        self.events.append(Settings(**self.span(), group=GROUP, ordered=ordered, max_attempts=attempts))
        return self

    def route(self, *queues: int) -> Story:
        self.events.append(Route(**self.span(), topic=TOPIC, code="OK", queues=queues))
        return self

    def assigned(self, *queues: int) -> Story:
        self.events.append(Assignment(**self.span(), group=GROUP, topic=TOPIC, code="OK", queues=queues))
        return self

    def check(self, name: str, **changes: Any) -> Story:
        self.events.append(
            Check(**self.span(), content=self.content(name, **changes), transaction=f"tx of {name}")
        )
        return self

    def pull(
        self,
        *names: str,
        offset: int = 0,
        first: int | None = None,
        next_offset: int | None = None,
        code: str = "",
        begun: float | None = None,
        poll: float = 5.0,
        batch: int = 32,
        queue: int = 0,
        selected: str = "*",
        commit: int | None = None,
        **changes: Any,
    ) -> Story:
        """Pull from queue 0 now, after waiting since `begun`; the messages lie in `queue` at `first` and behind it."""
        now, self.now = self.now, self.now if begun is None else begun
        start, self.now = self.instant(), now
        first = offset if first is None else first
        deliveries = tuple(
            Delivered(
                content=self.content(name, **changes),
                attempt=0,
                handle="",
                queue=queue,
                offset=first + place,
                stored=now,
                due=None,
                after=Instant(now, start.step),
                at=self.instant(),
            )
            for place, name in enumerate(names)
        )
        self.events.append(
            Pull(
                begun=start,
                ended=self.instant(),
                client=CLIENT,
                group=GROUP,
                topic=TOPIC,
                queue=0,
                offset=offset,
                batch=batch,
                poll=poll,
                filter=tags(selected),
                code=code or ("OK" if names else "MESSAGE_NOT_FOUND"),
                deliveries=deliveries,
                next_offset=first + len(names) if next_offset is None else next_offset,
                commit=commit,
            )
        )
        return self

    def commit(self, offset: int, *, code: str = "OK") -> Story:
        span = self.span()
        if code == UNKNOWN:  # it is given up after all that follows
            span["ended"] = Instant(self.now, 1_000_000)
        self.events.append(Commit(**span, **PLACE, queue=0, commit=offset, code=code))
        return self

    def committed(self, offset: int | None) -> Story:
        self.events.append(Committed(**self.span(), **PLACE, queue=0, offset=offset))
        return self

    def ends(self, low: int, high: int) -> Story:
        self.events.append(Ends(**self.span(), topic=TOPIC, queue=0, low=low, high=high))
        return self

    def joined(self, client: str) -> Story:
        self.events.append(Joined(**self.span(), client=client, group=GROUP))
        return self

    def left(self, client: str) -> Story:
        self.events.append(Left(**self.span(), client=client, group=GROUP))
        return self

    def members(self, *clients: str) -> Story:
        self.events.append(Members(**self.span(), group=GROUP, clients=clients))
        return self

    def noticed(self, *clients: str) -> Story:
        self.events += [Noticed(**self.span(), client=client, group=GROUP) for client in clients]
        return self

    def lock(self, client: str, *granted: int, asked: tuple[int, ...] = (0,)) -> Story:
        self.events.append(Lock(**self.span(), **PLACE, client=client, asked=asked, granted=granted))
        return self

    def unlock(self, client: str, *queues: int) -> Story:
        self.events.append(Unlock(**self.span(), **PLACE, client=client, queues=queues))
        return self

    def trim(self, age: float) -> Story:
        self.events.append(Trim(**self.span(), age=age))
        return self

    def pause(self, seconds: float) -> Story:
        begun = self.instant()
        self.now += seconds
        self.events.append(Pause(begun=begun, ended=self.instant()))
        return self

    def restart(self) -> Story:
        self.events.append(Restart(**self.span()))
        return self

    def gone(self, *, crashed: bool = False) -> Story:
        self.events.append(Gone(**self.span(), client=CLIENT, crashed=crashed))
        return self

    def lag(self, waiting: int, in_flight: int) -> Story:
        self.events.append(Lag(**self.span(), group=GROUP, topic=TOPIC, waiting=waiting, in_flight=in_flight))
        return self

    def drained(self, topic: str = TOPIC, group: str = GROUP) -> Story:
        self.events.append(Drained(**self.span(), group=group, topic=topic))
        return self

    def group(self, name: str = GROUP, *, limit: int = 17, is_anew: bool = False) -> Story:
        self.events.append(
            GroupCreated(**self.span(), group=name, ordered=False, max_attempts=limit, is_anew=is_anew)
        )
        return self

    def queues(self, count: int) -> Story:
        self.events.append(TopicCreated(**self.span(), topic=TOPIC, type=self._type, queues=count))
        return self

    def rules(self, semantics: Semantics = DOCUMENTED) -> list[str]:
        """Return the rules that the model reports."""
        return [violation.rule for violation in judge(self.events, semantics)]
