"""Rows that the broker and the clients record of a block, in server time.

The broker records each instant. A client records its call and the answer; only the broker records a delivery if the
answer was lost.
"""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit.generator.columns import NONE, Bools, Cells, Columns, Draft, Ints, cells
from aiorocketmq_audit.generator.histories import (
    ACK,
    ACK_IN_VAIN,
    ACK_LOST,
    BURIED,
    CRASHED,
    EXPIRED,
    EXTENDED,
    FORGOTTEN,
    FORWARDED,
    NACK,
    SLOW,
    TICK_US,
    UNSEEN,
)
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.generator.shape import Shape
from aiorocketmq_audit.generator.world import NOT_STORED, REFUSED, STORED, UNCONFIRMED, Block

GIVE_UP_US = 3_000_000
"""A call without an answer times out after this time."""

_OK, _EXPIRED_HANDLE, _REFUSED = 20000, 40011, 42900
_LATE_US = 500_000
_OPS = 16
"""Operation numbers reserved for each delivery, send and answer."""

_LARGEST = 1 << 14
"""An upper bound of the messages in an answer."""


class Settled:
    """Settlements of attempts: times and calls, the same for all observers."""

    def __init__(self, block: Block, shape: Shape, chance: np.random.Generator) -> None:
        attempts = block.attempts
        count = len(attempts["message"])
        self.begin = attempts["tick"] * TICK_US
        effect = self.begin + attempts["work"] * TICK_US - chance.integers(500, 4_500, count)
        self.lease_end = self.begin + shape.hold_ms * 1000
        late = self.lease_end + chance.integers(1, 1 + _LATE_US, count)
        self.effect = np.where(attempts["outcome"] == SLOW, late, effect)
        self.call = self.effect - chance.integers(300, 1_500, count)
        self.answer = self.effect + chance.integers(300, 1_500, count)
        self.extended = self.begin + 4_000 + chance.integers(0, 500, count)
        """An extension, before the settlement."""


def broker(block: Block, settled: Settled, names: Names) -> Columns:
    """Return the rows that the broker records."""
    draft, answers = Draft(), block.answers
    messages, sent = block.messages, block.messages["sent"]
    store = np.where(messages["due"] == NONE, messages["store"], NONE)
    stored = cells(
        _sent(messages, names), recorder=0, phase="ok", born_us=sent - 1_000, store_us=store, code=_OK
    )
    draft.some(messages["outcome"] <= UNCONFIRMED, stored, at=sent, invoked=sent)
    draft.add(len(settled.begin), _delivered(block, names), at=settled.begin)
    poll = cells(_polled(block, names), recorder=0, phase="ok", code=_OK)
    draft.add(len(answers["at"]), poll, at=answers["at"], invoked=answers["asked"] + 300)
    _settled_by_broker(draft, block, settled)
    return draft.table()


def _settled_by_broker(draft: Draft, block: Block, settled: Settled) -> None:
    outcome, wait, number = (block.attempts[name] for name in ("outcome", "wait", "delivery"))
    about = cells(_of(block), delivery=number, handle=number, attempt=block.attempts["attempt"])
    renewed: Cells = {"handle": _new_handle(block), "prev_handle": number}

    def call(which: Bools, kind: str, at: Ints, *parts: Cells, **more: Ints | int | str) -> None:
        draft.some(which, about, {"phase": "ok"}, *parts, kind=kind, at=at, invoked=at, code=_OK, **more)

    extended = outcome == EXTENDED
    length = (settled.lease_end - settled.begin) // 1000
    call(extended, "change", settled.extended, renewed, invisible_ms=length, reason="extend")
    call(np.isin(outcome, (ACK, ACK_LOST, FORGOTTEN)), "ack", settled.effect)
    call(extended, "ack", settled.effect, handle=_new_handle(block))
    call(outcome == SLOW, "ack", settled.effect, phase="fail")
    call(np.isin(outcome, (NACK, BURIED)), "change", settled.effect, renewed, invisible_ms=wait)
    draft.some(outcome == BURIED, about, kind="dlq.deliver", at=settled.effect + wait * 1000)
    draft.some(outcome == FORWARDED, about, kind="dlq.deliver", at=settled.effect)
    expired = np.isin(outcome, (EXPIRED, ACK_IN_VAIN, UNSEEN))
    draft.some(expired, about, kind="expire", at=settled.lease_end)
    _struck(draft, block, settled, recorder=0)


def _struck(draft: Draft, block: Block, settled: Settled, recorder: Ints | int) -> None:
    """Add crashes of consumers and restarts of the server, which every observer records."""
    outcome, about = block.attempts["outcome"], _of(block)
    who: Cells = {"recorder": recorder, "client_id": about["client_id"], "group": about["group"]}
    draft.some(outcome == CRASHED, who, kind="client.crash", at=settled.begin + 300_000)
    draft.some(outcome == FORGOTTEN, recorder=recorder, kind="fault", at=settled.effect + _LATE_US, fault=0)


def clients(block: Block, settled: Settled, names: Names, chance: np.random.Generator) -> Columns:
    """Return the rows that all clients record, each with its own recorder."""
    draft, attempts, answers = Draft(), block.attempts, block.answers
    _sends(draft, block, names, chance)
    _receives(draft, block, names, chance)
    recorder, outcome, number = attempts["client"], attempts["outcome"], attempts["delivery"]
    received_at, polled_at = answers["seen"][attempts["answer"]], answers["asked"][attempts["answer"]]
    who: Cells = {"recorder": recorder, "role": "push"}
    came = outcome != UNSEEN
    delivery = cells(_delivered(block, names), who, server_deliver_us=settled.begin)
    draft.some(came, delivery, at=received_at, invoked=polled_at)
    about = cells(_of(block), who, attempt=attempts["attempt"], delivery=number)
    draft.some(came, about, kind="handle.start", at=received_at + 100)
    ended = came & ~np.isin(outcome, (EXPIRED, CRASHED))
    has_failed = np.isin(outcome, (NACK, BURIED, FORWARDED)).astype(np.int64)
    draft.some(ended, about, kind="handle.end", at=settled.call - 100, result=has_failed)
    _settled_by_clients(draft, block, settled, cells(about, handle=number))
    born: Cells = {name: about[name] for name in ("recorder", "client_id", "group", "role")}
    draft.some(outcome == CRASHED, born, kind="client.start", at=polled_at - 1_000)
    _struck(draft, block, settled, recorder)
    return draft.table()


def _sends(draft: Draft, block: Block, names: Names, chance: np.random.Generator) -> None:
    messages = block.messages
    outcome, count = messages["outcome"], len(messages["sent"])
    call = messages["sent"] - chance.integers(300, 1_500, count)
    answer = messages["sent"] + chance.integers(300, 1_500, count)
    recorder = names.consumers + messages["producer"]
    sent = cells(_sent(messages, names), recorder=recorder, op_id=messages["message"] * _OPS, attempt=1)
    unplaced = cells(sent, broker=NONE, queue=NONE, offset=NONE)
    draft.add(count, unplaced, phase="invoke", at=call)
    # A receipt contains the offset, but not its queue.
    received = cells(unplaced, offset=sent["offset"])
    draft.some(outcome == STORED, received, phase="ok", at=answer, invoked=call, code=_OK)
    draft.some(outcome == REFUSED, unplaced, phase="fail", at=answer, invoked=call, code=_REFUSED)
    lost = np.isin(outcome, (UNCONFIRMED, NOT_STORED))
    draft.some(lost, unplaced, phase="info", at=call + GIVE_UP_US, invoked=call)


def _receives(draft: Draft, block: Block, names: Names, chance: np.random.Generator) -> None:
    answers = block.answers
    received_at, polled_at, unseen = answers["seen"], answers["asked"], answers["unseen"] == 1
    poll = cells(_polled(block, names), recorder=answers["client"], role="push")
    draft.add(len(received_at), poll, phase="invoke", at=polled_at, rank=NONE)
    draft.some(~unseen, poll, phase="ok", at=received_at, invoked=polled_at, code=_OK)
    cut = received_at + chance.integers(1_000, 500_000, len(received_at))
    draft.some(unseen, poll, phase="info", at=cut, invoked=polled_at, rank=NONE)


def _settled_by_clients(draft: Draft, block: Block, settled: Settled, about: Cells) -> None:
    attempts = block.attempts
    outcome, number, new = attempts["outcome"], attempts["delivery"], _new_handle(block)
    renewed: Cells = {"handle": new, "prev_handle": number}
    around = (settled.call, settled.answer)

    def call(
        which: Bools, kind: str, span: tuple[Ints, Ints], *parts: Cells, phase: str = "ok", **more: Ints | str
    ) -> None:
        row = cells(about, *parts, **more, kind=kind, op_id=number * _OPS + (2 if kind == "change" else 3))
        draft.some(which, row, phase="invoke", at=span[0])
        code = {"ok": _OK, "fail": _EXPIRED_HANDLE}.get(phase, NONE)
        draft.some(which, row, phase=phase, at=span[1], invoked=span[0], code=code)

    extended = outcome == EXTENDED
    length = (settled.lease_end - settled.begin) // 1000
    around_extension = (settled.extended - 300, settled.extended + 300)
    call(extended, "change", around_extension, renewed, invisible_ms=length, reason="extend")
    used = np.where(extended, new, number)
    call(np.isin(outcome, (ACK, EXTENDED, FORGOTTEN)), "ack", around, handle=used)
    given_up = (settled.call, settled.call + GIVE_UP_US)
    call(np.isin(outcome, (ACK_LOST, ACK_IN_VAIN)), "ack", given_up, phase="info")
    call(outcome == SLOW, "ack", around, phase="fail")
    retried = np.isin(outcome, (NACK, BURIED))
    call(retried, "change", around, renewed, invisible_ms=attempts["wait"], reason="retry")
    call(outcome == FORWARDED, "forward", around)


def _sent(messages: Columns, names: Names) -> dict[str, Ints | int | str]:
    is_due = messages["due"] != NONE
    # The receipt of a delayed message does not contain its final offset.
    placed: Cells = {name: np.where(is_due, NONE, messages[name]) for name in ("broker", "queue", "offset")}
    client = names.consumers + messages["producer"]
    return cells(_content(messages), placed, kind="send", client_id=client, role="producer")


def _content(messages: Columns) -> dict[str, Ints | int | str]:
    """Return the columns of a message that sends and deliveries share."""
    content: Cells = {name: messages[name] for name in ("topic", "message_group", "tag", "producer")}
    number = messages["message"]
    return cells(
        content, message_id=number, body_sha=number, pseq=number, props_sha=0, due_us=messages["due"]
    )


def _of(block: Block) -> dict[str, Ints | int | str]:
    """Return the columns of an attempt's message and client."""
    messages, attempts = block.messages, block.attempts
    of = attempts["message"]
    names = ("topic", "broker", "queue", "offset", "message_group", "tag")
    placed: Cells = {name: messages[name][of] for name in names}
    who = _client(attempts["client"], attempts["stray"])
    return cells(
        placed, message_id=messages["message"][of], recorder=0, group=attempts["group"], client_id=who
    )


def _polled(block: Block, names: Names) -> dict[str, Ints | int | str]:
    answers = block.answers
    who = _client(answers["client"], answers["stray"])
    about: Cells = {name: answers[name] for name in ("group", "topic")}
    wanted = names.filters_of(answers["group"])
    rank = (answers["number"] + 1) * _LARGEST
    return cells(
        about, kind="receive", op_id=answers["number"] * _OPS, client_id=who, filter=wanted, rank=rank
    )


def _delivered(block: Block, names: Names) -> dict[str, Ints | int | str]:
    messages, attempts = block.messages, block.attempts
    of, number = attempts["message"], attempts["delivery"]
    answer = block.answers["number"][attempts["answer"]]
    return cells(
        {name: each[of] for name, each in _content(messages).items() if isinstance(each, np.ndarray)},
        _of(block),
        kind="deliver",
        delivery=number,
        handle=number,
        attempt=attempts["attempt"],
        batch=answer * _OPS,
        batch_pos=attempts["position"],
        # Messages of one answer are adjacent, in their order, before the row of the answer.
        rank=answer * _LARGEST + attempts["position"],
        invisible_ms=names.shape.hold_ms,
        auto_renew=0,
        born_us=messages["sent"][of] - 1_000,
        store_us=messages["store"][of],
        filter=names.filters_of(attempts["group"]),
        props_sha=0,
    )


def _new_handle(block: Block) -> Ints:
    """Return the handle issued by a change: a different number than that of any delivery."""
    return block.attempts["delivery"] + (1 << 50)


def _client(client: Ints, stray: Ints) -> Ints:
    """Return clients by index; those that lived for one message are counted from the end."""
    return np.where(stray == NONE, client, NONE - 1 - stray)
