"""What the broker and the clients write down of a block: rows of each account, at the server's time.

The broker knows each instant. A client knows when it called and when it was answered, and a delivery whose answer
was lost is known to the broker alone.
"""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit.generator import names as n
from aiorocketmq_audit.generator.columns import NONE, Bools, Cells, Columns, Draft, Ints, cells
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.generator.shape import Shape
from aiorocketmq_audit.generator.ways import (
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
from aiorocketmq_audit.generator.world import NOT_STORED, REFUSED, STORED, UNCONFIRMED, Block

GIVE_UP_US = 3_000_000
"""A call without an answer is given up after this time."""

_OK, _EXPIRED_HANDLE, _REFUSED = 20000, 40011, 42900
_LATE_US = 500_000
_OPS = 16
"""Numbers of operations that each delivery, send and answer has to itself."""

_LARGEST = 1 << 14
"""More messages than an answer has."""


class Settled:
    """When each attempt was settled, and by which calls; the same for all accounts."""

    def __init__(self, block: Block, shape: Shape, chance: np.random.Generator) -> None:
        attempts = block.attempts
        count = len(attempts["message"])
        outcome = attempts["outcome"]
        begin = attempts["tick"] * TICK_US
        self.begin = begin
        self.effect = begin + attempts["work"] * TICK_US - chance.integers(500, 4_500, count)
        self.hold_end = begin + shape.hold_ms * 1000
        late = self.hold_end + chance.integers(1, 1 + _LATE_US, count)
        self.effect = np.where(outcome == SLOW, late, self.effect)
        self.call = self.effect - chance.integers(300, 1_500, count)
        self.answer = self.effect + chance.integers(300, 1_500, count)
        self.prolonged = begin + 4_000 + chance.integers(0, 500, count)
        """An extension, before the settlement."""


def broker(block: Block, settled: Settled, names: Names) -> Columns:
    """The broker's account."""
    draft = Draft()
    _stored(draft, block, names)
    draft.add(
        len(settled.begin),
        _of(block),
        _handed_out(block, names),
        kind=n.DELIVER,
        at=settled.begin,
        rank=_rank(block),
    )
    answers = block.answers
    draft.add(
        len(answers["at"]),
        _asked(block),
        recorder=0,
        phase=n.OK,
        at=answers["at"],
        invoked=answers["asked"] + 300,
        rank=(answers["number"] + 1) * _LARGEST,
        code=_OK,
    )
    _settled_by_broker(draft, block, settled)
    return draft.table()


def _settled_by_broker(draft: Draft, block: Block, settled: Settled) -> None:
    outcome, wait, number = (block.attempts[name] for name in ("outcome", "wait", "delivery"))
    about = cells(_of(block), _handles(block), attempt=block.attempts["attempt"])

    def call(which: Bools, kind: int, at: Ints, phase: int = n.OK, **more: Ints | int) -> None:
        draft.some(which, about, kind=kind, at=at, invoked=at, phase=phase, code=_OK, **more)

    extended = outcome == EXTENDED
    hold = (settled.hold_end - settled.begin) // 1000
    new = _new_handle(block)
    call(extended, n.CHANGED, settled.prolonged, hold=hold, reason=n.EXTEND, handle=new, before=number)
    call(np.isin(outcome, (ACK, ACK_LOST, FORGOTTEN)), n.ACKED, settled.effect)
    call(extended, n.ACKED, settled.effect, handle=new)
    call(outcome == SLOW, n.ACKED, settled.effect, n.FAILED)
    asked = np.isin(outcome, (NACK, BURIED))
    call(asked, n.CHANGED, settled.effect, hold=wait, handle=new, before=number)
    draft.some(outcome == BURIED, about, kind=n.DEAD, at=settled.effect + wait * 1000)
    draft.some(outcome == FORWARDED, about, kind=n.DEAD, at=settled.effect)
    draft.some(np.isin(outcome, (EXPIRED, ACK_IN_VAIN, UNSEEN)), about, kind=n.EXPIRE, at=settled.hold_end)
    _struck(draft, block, settled, recorder=0)


def _struck(draft: Draft, block: Block, settled: Settled, recorder: Ints | int) -> None:
    """Crashes of consumers and restarts of the server: every account knows of them."""
    outcome, about = block.attempts["outcome"], _of(block)
    who: Cells = {"recorder": recorder, "client": about["client"], "group": about["group"]}
    draft.some(outcome == CRASHED, who, kind=n.CLIENT_CRASH, at=settled.begin + 300_000)
    draft.some(outcome == FORGOTTEN, recorder=recorder, kind=n.FAULT, at=settled.effect + _LATE_US, fault=0)


def _stored(draft: Draft, block: Block, names: Names) -> None:
    messages = block.messages
    at = messages["sent"]
    draft.some(
        messages["outcome"] <= UNCONFIRMED,
        _sent(messages, names),
        recorder=0,
        phase=n.OK,
        at=at,
        invoked=at,
        born=at - 1_000,
        store=np.where(messages["due"] == NONE, messages["store"], NONE),
        code=_OK,
    )


def clients(block: Block, settled: Settled, names: Names, chance: np.random.Generator) -> Columns:
    """The accounts of all clients, each by its own recorder."""
    draft = Draft()
    _sends(draft, block, names, chance)
    _receives(draft, block, chance)
    attempts, answers = block.attempts, block.answers
    recorder, outcome = attempts["client"], attempts["outcome"]
    seen, asked = answers["seen"][attempts["answer"]], answers["asked"][attempts["answer"]]
    came = outcome != UNSEEN
    draft.some(
        came,
        _of(block),
        _handed_out(block, names),
        recorder=recorder,
        kind=n.DELIVER,
        role=n.PUSH,
        at=seen,
        invoked=asked,
        rank=_rank(block),
        answered=settled.begin,
    )
    about = cells(_of(block), recorder=recorder, role=n.PUSH, attempt=attempts["attempt"])
    handling = cells(about, delivery=attempts["delivery"])
    draft.some(came, handling, kind=n.HANDLE_START, at=seen + 100)
    result = np.where(np.isin(outcome, (NACK, BURIED, FORWARDED)), 1, 0)
    ended = came & ~np.isin(outcome, (EXPIRED, CRASHED))
    draft.some(ended, handling, kind=n.HANDLE_END, at=settled.call - 100, result=result)
    _settled_by_clients(draft, block, settled, about)
    who: Cells = {name: about[name] for name in ("recorder", "client", "group", "role")}
    draft.some(outcome == CRASHED, who, kind=n.CLIENT_START, at=asked - 1_000)
    _struck(draft, block, settled, recorder)
    return draft.table()


def _sends(draft: Draft, block: Block, names: Names, chance: np.random.Generator) -> None:
    messages = block.messages
    outcome, count = messages["outcome"], len(messages["sent"])
    call = messages["sent"] - chance.integers(300, 1_500, count)
    answer = messages["sent"] + chance.integers(300, 1_500, count)
    recorder = names.consumers + messages["producer"]
    sent = cells(_sent(messages, names), recorder=recorder, op=messages["message"] * _OPS, attempt=1)
    unplaced = cells(sent, broker=NONE, queue=NONE, offset=NONE)
    draft.add(count, unplaced, phase=n.INVOKED, at=call)
    # A receipt tells the offset, and not the queue that it is in.
    received = cells(unplaced, offset=sent["offset"])
    draft.some(outcome == STORED, received, phase=n.OK, at=answer, invoked=call, code=_OK)
    draft.some(outcome == REFUSED, unplaced, phase=n.FAILED, at=answer, invoked=call, code=_REFUSED)
    lost = np.isin(outcome, (UNCONFIRMED, NOT_STORED))
    draft.some(lost, unplaced, phase=n.UNKNOWN, at=call + GIVE_UP_US, invoked=call)


def _receives(draft: Draft, block: Block, chance: np.random.Generator) -> None:
    answers = block.answers
    seen, asked, unseen = answers["seen"], answers["asked"], answers["unseen"] == 1
    poll = cells(_asked(block), recorder=answers["client"], role=n.PUSH)
    draft.add(len(seen), poll, phase=n.INVOKED, at=asked)
    rank = (answers["number"] + 1) * _LARGEST
    draft.some(~unseen, poll, phase=n.OK, at=seen, invoked=asked, rank=rank, code=_OK)
    cut = seen + chance.integers(1_000, 500_000, len(seen))
    draft.some(unseen, poll, phase=n.UNKNOWN, at=cut, invoked=asked)


def _settled_by_clients(draft: Draft, block: Block, settled: Settled, about: Cells) -> None:
    attempts = block.attempts
    outcome, number = attempts["outcome"], attempts["delivery"]

    def call(which: Bools, kind: int, span: tuple[Ints, Ints], phase: int = n.OK, **more: Ints | int) -> None:
        op = number * _OPS + (2 if kind == n.CHANGED else 3)
        row = cells(about, _handles(block), cells(**more), kind=kind, op=op)
        draft.some(which, row, phase=n.INVOKED, at=span[0])
        code = {n.OK: _OK, n.FAILED: _EXPIRED_HANDLE}.get(phase, NONE)
        draft.some(which, row, phase=phase, at=span[1], invoked=span[0], code=code)

    around, new = (settled.call, settled.answer), _new_handle(block)
    prolonging = (settled.prolonged - 300, settled.prolonged + 300)
    hold = (settled.hold_end - settled.begin) // 1000
    extended = outcome == EXTENDED
    call(extended, n.CHANGED, prolonging, hold=hold, reason=n.EXTEND, handle=new, before=number)
    used = np.where(extended, new, number)
    call(np.isin(outcome, (ACK, EXTENDED, FORGOTTEN)), n.ACKED, around, handle=used)
    given_up = (settled.call, settled.call + GIVE_UP_US)
    call(np.isin(outcome, (ACK_LOST, ACK_IN_VAIN)), n.ACKED, given_up, n.UNKNOWN)
    call(outcome == SLOW, n.ACKED, around, n.FAILED)
    asked = np.isin(outcome, (NACK, BURIED))
    call(asked, n.CHANGED, around, hold=attempts["wait"], reason=n.RETRY, handle=new, before=number)
    call(outcome == FORWARDED, n.FORWARD, around)


def _sent(messages: Columns, names: Names) -> Cells:
    is_due = messages["due"] != NONE
    sent: Cells = {name: messages[name] for name in ("message", "topic", "message_group", "tag", "due")}
    # The receipt of a delayed message does not tell where it will end.
    placed: Cells = {name: np.where(is_due, NONE, messages[name]) for name in ("broker", "queue", "offset")}
    return cells(
        sent,
        placed,
        kind=n.SEND,
        client=names.consumers + messages["producer"],
        role=n.PRODUCER,
        body=messages["message"],
        props=0,
        pseq=messages["message"],
        producer=messages["producer"],
    )


def _of(block: Block) -> Cells:
    """Which message an attempt is about, and whose it was."""
    messages, attempts = block.messages, block.attempts
    names = ("message", "topic", "broker", "queue", "offset", "message_group", "tag")
    placed: Cells = {name: messages[name][attempts["message"]] for name in names}
    who = _client(attempts["client"], attempts["stray"])
    return cells(placed, recorder=0, group=attempts["group"], client=who)


def _asked(block: Block) -> Cells:
    answers = block.answers
    who = _client(answers["client"], answers["stray"])
    poll: Cells = {name: answers[name] for name in ("group", "topic")}
    return cells(poll, kind=n.RECEIVE, op=answers["number"] * _OPS, client=who)


def _handed_out(block: Block, names: Names) -> Cells:
    messages, attempts = block.messages, block.attempts
    of = attempts["message"]
    filters = np.array([names.filter_of(group) for group in range(len(names.groups))], np.int64)
    return cells(
        _handles(block),
        attempt=attempts["attempt"],
        batch=block.answers["number"][attempts["answer"]] * _OPS,
        position=attempts["position"],
        hold=names.shape.hold_ms,
        renew=0,
        due=messages["due"][of],
        born=messages["sent"][of] - 1_000,
        store=messages["store"][of],
        filter=filters[attempts["group"]],
        body=messages["message"][of],
        props=0,
        pseq=messages["message"][of],
        producer=messages["producer"][of],
    )


def _handles(block: Block) -> Cells:
    return {"delivery": block.attempts["delivery"], "handle": block.attempts["delivery"]}


def _new_handle(block: Block) -> Ints:
    """The handle that a change gave: another number than any delivery has."""
    return block.attempts["delivery"] + (1 << 50)


def _client(client: Ints, stray: Ints) -> Ints:
    """Clients by number; those that lived for one message are counted from the other end."""
    return np.where(stray == NONE, client, NONE - 1 - stray)


def _rank(block: Block) -> Ints:
    """Puts the messages of one answer side by side, in their order, before the answer's own row."""
    return block.answers["number"][block.attempts["answer"]] * _LARGEST + block.attempts["position"]
