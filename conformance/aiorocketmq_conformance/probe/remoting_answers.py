"""Responses and requests of servers of the classic remoting protocol."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.records import Record
from aiorocketmq._remoting.codes import response_name


@dataclass(frozen=True, slots=True)
class Notice:
    """The server's notification that the members of a group have changed."""

    group: str
    at: float


@dataclass(frozen=True, slots=True)
class Pulled:
    """The response to a pull, and its times."""

    code: int
    remark: str
    records: tuple[Record, ...]
    next_offset: int | None
    span: tuple[int | None, int | None]
    """The first offset of the queue, and the one after its last."""
    started: float
    ended: float

    @property
    def name(self) -> str:
        """The code's name."""
        return response_name(self.code)


@dataclass(frozen=True, slots=True)
class Progress:
    """A group's committed offset in one queue, and the end of the queue."""

    committed: int
    end: int


def response_text(answer: Frame) -> str:
    """Return a response's code and remark, for error messages."""
    return f"{response_name(answer.code)}: {answer.remark}"


def number(answer: Frame, name: str) -> int | None:
    """Return a number of a response's fields; None if it is missing."""
    text = answer.fields.get(name)
    return None if text is None else int(text)
