"""INV-DLQ over numbers: dead letters that were made twice, or before the last attempt, on a broker's account."""

from __future__ import annotations

from functools import partial

import numpy as np

from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import NONE, Events
from aiorocketmq_audit.kernels.places import topics
from aiorocketmq_audit.kernels.question import Question, Settings, Survey, Told, chosen
from aiorocketmq_audit.kernels.texts import mixed

LETTERS = "dead letters made"
"""How many messages became dead letters, and of how many that looks wrong."""


def question(settings: Settings) -> Question:
    """Of each message of a group: whether it became a dead letter as it should."""
    return Question(
        ({"key": "u8", "about": "u8", "is_letter": "?", "is_early": "?"},),
        partial(_rows, settings),
        _answer,
    )


def _rows(settings: Settings, events: Events, _: Survey) -> tuple[Rows]:
    attempt, most = events.number("attempt"), settings.max_attempts[settings.of(events)]
    is_letter = events.one_of("kind", "dlq.deliver")
    return (
        chosen(
            events.one_of("observer", "broker") & (is_letter | events.one_of("kind", "forward")),
            key=mixed(topics(events), events.text("message_id")),
            about=events.text("message_id"),
            is_letter=is_letter,
            is_early=is_letter & (attempt != NONE) & (attempt < most),
        ),
    )


def _answer(rows: Rows) -> Told:
    runs = Runs(rows["key"])
    letters = runs.count(rows["is_letter"])
    wrong = (letters > 1) | (runs.any(rows["is_early"]) & (letters == runs.lengths))
    counts = {LETTERS: (int((letters > 0).sum()), int(wrong.sum()))}
    return Told(counts, sought=np.unique(runs.first(rows["about"])[wrong]))
