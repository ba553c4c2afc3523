"""Who calls: what the headers of a call say, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

__all__ = ["Caller", "read_caller"]


@dataclass(slots=True)
class Caller:
    """The headers that have a meaning (1.1); an absent one is the empty string."""

    client_id: str = ""
    language: str = ""
    version: str = ""
    address: str = ""
    """`host:port` of the peer, where the transport tells it."""


def read_caller(headers: Iterable[tuple[str, str | bytes]], peer: str) -> Caller:
    """Read the headers of one call; `peer` is the transport's own word for the other side, such as `ipv4:1.2.3.4:5`."""
    caller = Caller(address=unquote(peer.partition(":")[2]))
    for key, value in headers:
        if isinstance(value, str):
            if key == "x-mq-client-id":
                caller.client_id = value.strip()
            elif key == "x-mq-language":
                caller.language = value
            elif key == "x-mq-client-version":
                caller.version = value
    return caller


# R1.1: the server's own list, not the contract's; DOT_NET and GOLANG, its names in the contract, are refused.
LANGUAGES = frozenset(
    {
        *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY"),
        *("OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"),
    }
)
