"""The caller of an RPC: its headers and its address."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from aiorocketmq_fake.core.commands.access import Signature
from aiorocketmq_fake.core.values.codes import Code, Refusal, Surface
from aiorocketmq_fake.core.values.profile import Profile

__all__ = ["Caller", "check_language", "read_caller"]


def _nobody() -> str:
    return ""


@dataclass(slots=True)
class Caller:
    """The headers of the protocol (1.1); an absent one is the empty string."""

    client_id: str = ""
    language: str = ""
    version: str = ""
    authorization: str = ""
    date_time: str = ""
    session_token: str = ""
    peer: Callable[[], str | None] = _nobody
    """Reads the peer address lazily, such as `ipv4:1.2.3.4:5`; few calls need it."""

    @property
    def address(self) -> str:
        """`host:port` of the peer, empty if unknown."""
        return _address(self.peer() or "")

    @property
    def signature(self) -> Signature:
        """The signature of the call."""
        source = self.address.rpartition(":")[0]
        return Signature(self.authorization, self.date_time, self.session_token, source)


def read_caller(headers: Iterable[tuple[str, str | bytes]], peer: Callable[[], str | None]) -> Caller:
    """Read the headers of one call."""
    caller = Caller(peer=peer)
    for key, value in headers:
        if isinstance(value, str):
            if key == "x-mq-client-id":
                caller.client_id = value.strip()
            elif key == "x-mq-language":
                caller.language = value
            elif key == "x-mq-client-version":
                caller.version = value
            elif key == "authorization":
                caller.authorization = value
            elif key == "x-mq-date-time":
                caller.date_time = value
            elif key == "x-mq-session-token":
                caller.session_token = value
    return caller


@lru_cache(maxsize=1024)
def _address(peer: str) -> str:
    """Return `host:port` of a peer; cached, as one connection makes many calls."""
    return unquote(peer.partition(":")[2])


def check_language(caller: Caller, profile: Profile, surface: Surface = Surface.STATUS) -> None:
    """Refuse a caller with a language that is unknown to the profile's server (R1.1)."""
    if profile.languages is not None and caller.language not in profile.languages:
        languages = ", ".join(sorted(profile.languages))
        text = f"the header x-mq-language is {caller.language!r}: send one of {languages}."
        raise Refusal(Code.INTERNAL_SERVER_ERROR, text, surface)
