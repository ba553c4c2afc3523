"""What a client of the classic remoting protocol saw."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.records import Record
from aiorocketmq._remoting.codes import response_name


@dataclass(frozen=True, slots=True)
class Notice:
    """The server said that the members of a group have changed."""

    group: str
    at: float


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull, and its times."""

    code: int
    remark: str
    records: tuple[Record, ...]
    next_offset: int | None
    started: float
    ended: float

    @property
    def name(self) -> str:
        """The code's name."""
        return response_name(self.code)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group is in one queue, and how far one could be."""

    committed: int
    end: int


def told(answer: Frame) -> str:
    """An answer's code and remark, for complaints."""
    return f"{response_name(answer.code)}: {answer.remark}"


def number(answer: Frame, name: str) -> int | None:
    """A number among an answer's fields; None where it is not there."""
    text = answer.fields.get(name)
    return None if text is None else int(text)
