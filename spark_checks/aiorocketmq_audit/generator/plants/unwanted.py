"""Faults of lite topics that come to consumers who do not want them, and what looks like one and is none."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, Handed, Mail, Row, Scene

_isolate = partial(kind, check="filters", invariant="INV-ISOLATE")


def _list(
    s: Scene, at: float, what: str, *names: str, phase: str = "ok", client: str = "a", role: str = ""
) -> None:
    """A list of lite topics that a client tells."""
    s.operation("lite.sync", at, phase, cells=_cells(s, client, role), cfg={what: ",".join(names)})


def _slow_list(s: Scene, call: float, at: float, what: str, *names: str) -> None:
    """A list of client `a` that is answered at `at`; a client tells it."""
    cells = _cells(s, "a", "") | {"cfg": {what: ",".join(names)}, "op_id": f"{s.topic}-{call}"}
    s.note("lite.sync", call, phase="invoke", **cells)
    s.note("lite.sync", at, phase="ok", invoked_us=s.instant(call), **cells)


def _cells(s: Scene, client: str, role: str) -> Row:
    return {"topic": s.topic, "group": NORMAL, "client_id": s.client(client), "role": role or _role(s)}


def _role(s: Scene) -> str:
    return "push" if s.observer == "client" else "lite"


def _bring(
    s: Scene, mail: Mail, at: float, attempt: int = 1, *, asked: float | None = None, role: str = ""
) -> Handed:
    """A poll of just before, or of `asked`, brings the message to client `a`."""
    role = role or _role(s)
    batch = s.poll(at - 0.2 if asked is None else asked, at, role=role)
    given = s.deliver(mail, at, attempt, group=NORMAL, batch=batch, role=role)
    s.ack(given, at + 0.5)
    return given


def _mail(s: Scene, lite_topic: str, offset: int = 0) -> Mail:
    return s.mail(offset, lite_topic=lite_topic)


@_isolate("isolate.lite-not-in-the-list")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann", "bob")
    _bring(s, _mail(s, "ann"), 2)
    return _bring(s, _mail(s, "carol", 1), 3)


@_isolate("isolate.lite-nothing-wanted")
def _(s: Scene) -> Accused:
    _list(s, 1, "all")
    return _bring(s, _mail(s, "ann"), 2)


@_isolate("isolate.lite-of-another-client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann")
    _list(s, 1, "all", "bob", client="b")
    return _bring(s, _mail(s, "bob"), 2)


@_isolate("isolate.lite-before-it-was-added")
def _(s: Scene) -> Accused:
    mail = _mail(s, "bob")
    _list(s, 1, "all", "ann")
    early = _bring(s, mail, 2)
    _list(s, 3, "all", "ann", "bob")
    _bring(s, _mail(s, "bob", 1), 4)
    return early


@_isolate("isolate.lite-left-out")
def _(s: Scene) -> Accused:
    mails = [_mail(s, "bob", offset) for offset in range(2)]
    _list(s, 1, "all", "ann", "bob")
    _bring(s, mails[0], 2)
    _list(s, 3, "all", "ann")
    return _bring(s, mails[1], 4)


@_isolate("isolate.lite-when-it-came-again")
def _(s: Scene) -> Accused:
    mail = _mail(s, "ann")
    _list(s, 1, "all", "ann")
    first = s.deliver(mail, 2, group=NORMAL, batch=s.poll(1.5, 2, role=_role(s)), role=_role(s))
    back = s.nack(first, 3)
    _list(s, 3.1, "all", "bob")
    return _bring(s, mail, back + 0.5, 2)


@_isolate("isolate.lite-seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann")
    return _bring(s, _mail(s, "bob"), 2)


@_isolate("isolate.lite-removed", observer="client")
def _(s: Scene) -> Accused:
    mails = [_mail(s, "ann", offset) for offset in range(2)]
    _list(s, 1, "all", "ann", "bob")
    _bring(s, mails[0], 2)
    _list(s, 3, "remove", "ann")
    return _bring(s, mails[1], 4)


@_isolate("isolate.lite-refused", observer="client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann")
    _list(s, 2, "add", "bob", phase="fail")
    return _bring(s, _mail(s, "bob"), 3)


@_isolate("isolate.lite-taken-and-left-out", observer="client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann", "bob")
    s.note("lite.sync", 2, topic=s.topic, group=NORMAL, client_id=s.client("a"), cfg={"taken": "ann"})
    _list(s, 3, "all", "bob")
    return _bring(s, _mail(s, "ann"), 4)


def _changes(s: Scene) -> Accused:
    """Lite topics come and go, and come again; one comes by a poll that was out when it went."""
    mails = [_mail(s, name, offset) for offset, name in enumerate(("ann", "bob", "bob", "ann"))]
    _list(s, 1, "all", "ann")
    _bring(s, mails[0], 2)
    _list(s, 3, "all", "ann", "bob")
    _bring(s, mails[1], 4)
    _list(s, 5, "all", "ann")
    _bring(s, mails[2], 6, asked=4.9)
    _list(s, 7, "all")
    _list(s, 8, "all", "ann")
    _bring(s, mails[3], 9)
    return ()


@kind("honest.lite-changes")
def _(s: Scene) -> Accused:
    return _changes(s)


@kind("honest.lite-changes-of-client", observer="client")
def _(s: Scene) -> Accused:
    return _changes(s)


@kind("honest.lite-added-while-a-poll-is-out", observer="client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann")
    _list(s, 3, "add", "bob")
    _bring(s, _mail(s, "bob"), 4, asked=2)
    return ()


@kind("honest.lite-lists-under-way", observer="client")
def _(s: Scene) -> Accused:
    """Of two lists that were under way at once nobody knows which came last, and one counts from its call on."""
    _list(s, 1, "all", "ann", "bob")
    _slow_list(s, 2, 4, "remove", "ann")
    _list(s, 3, "all", "ann", "bob")
    _bring(s, _mail(s, "ann"), 5)
    _slow_list(s, 6, 8, "add", "carol")
    _bring(s, _mail(s, "carol", 1), 7)
    return ()


@kind("honest.lite-unconfirmed", observer="client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann", "bob")
    _list(s, 2, "remove", "ann", phase="info")
    _list(s, 3, "remove", "bob", phase="fail")
    _list(s, 4, "add", "carol", phase="info")
    _list(s, 5, "remove", "carol")
    for offset, name in enumerate(("ann", "bob", "carol")):
        _bring(s, _mail(s, name, offset), 6 + offset)
    return ()


@kind("honest.lite-taken", observer="client")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann")
    s.note("lite.sync", 2, topic=s.topic, group=NORMAL, client_id=s.client("a"), cfg={"taken": "ann"})
    _bring(s, _mail(s, "ann"), 3)
    return ()


@kind("honest.lite-for-an-ordinary-consumer")
def _(s: Scene) -> Accused:
    _list(s, 1, "all", "ann", role="simple")
    _bring(s, _mail(s, "bob"), 2, role="simple")
    return ()
