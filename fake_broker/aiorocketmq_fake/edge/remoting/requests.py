"""A request for its handler: the peer, and typed access to its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting_codes import RequestError, ResponseCode

__all__ = ["Act", "HangUpError", "Peer", "Request", "answer"]


@dataclass(slots=True)
class Peer:
    """The client at the other end of a connection."""

    channel: int
    """The connection's number."""
    address: str = ""
    """`host:port` of the client; empty before its first frame, as the next one."""
    local_host: str = ""
    """The local address of the connection."""
    client_id: str = ""
    """From its last heartbeat; empty before one."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Malformed fields are answered with the codes and texts of servers."""

    frame: Frame
    peer: Peer

    def text(self, name: str) -> str:
        """Return a required field."""
        value = self.frame.fields.get(name)
        if value is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"NullPointerException: the field {name} is missing"
            )
        return value

    def number(self, name: str, default: int | None = None, *, bits: int = 64) -> int:
        """Return an integer field, required without a default."""
        value = self.frame.fields.get(name)
        if value is None and default is not None:
            return default
        text = self.text(name)
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"NumberFormatException: the field {name} is {text[:40]!r}"
            )
        return number

    def truth(self, name: str, default: bool = False) -> bool:
        """Return a boolean, as Java reads it: anything but `true` is false."""
        value = self.frame.fields.get(name)
        return default if value is None else value.lower() == "true"


class HangUpError(Exception):
    """The connection is closed without an answer."""


Act = Callable[[Request], "Frame | None"]
"""Handles a request; None: it gets no answer."""


def answer(
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    code: ResponseCode = ResponseCode.SUCCESS,
    remark: str | None = None,
) -> Frame:
    """Return an answer; the server fills in language and number of the request."""
    return Frame(
        code.value, {name: str(value) for name, value in (fields or {}).items()}, body, remark=remark
    )
