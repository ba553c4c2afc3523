"""Endpoints as text and in servers' answers: `host:port` lists, IPv6 in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address


class Scheme(Enum):
    """Kind of the addresses; the values are the numbers on the wire."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """One host and port; an IPv6 host without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The addresses of one server, or of several equivalent ones; the key of its connection."""

    scheme: Scheme
    addresses: tuple[Address, ...]
    _hash: int = field(init=False, repr=False, compare=False)
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Every call looks its connection up by endpoint and every receipt has its text: both are computed once.
        object.__setattr__(self, "_hash", hash((self.scheme.value, self.addresses)))
        object.__setattr__(self, "_text", ";".join(map(str, self.addresses)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text


_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
_ZONE = re.compile(r"[A-Za-z0-9._~-]{1,64}")
"""The zone of an IPv6 address, behind its `%` (RFC 6874, 2): the name or number of an interface."""
_MAX_HOST = 255
"""Characters of a host: a domain name has at most 253, an IPv6 address with its zone fewer."""
_PORTS = "8081 is a proxy's usual port, 9876 a name server's, 10911 a broker's"
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


def parse_endpoint(text: str) -> Endpoint:
    """Parse an endpoint: `host:port`, several separated by `;`, or `[v6]:port`.

    Raises ValueError with one sentence that shows the malformed part. Several addresses must be IP addresses of one
    kind, because a host name already stands for several (client-behaviour.md, 3.1)."""
    if not isinstance(text, str):
        raise TypeError(f"an endpoint is text like 'localhost:8081', not {type(text).__name__}")
    prefix = _SCHEME.match(text.strip())
    if prefix is not None:
        rest = text.strip()[prefix.end() :] or "host:8081"
        hint = " and tls=Tls()" if prefix.group(1).lower() == "https" else ""
        raise ValueError(
            f"endpoint {text!r} must not start with {prefix.group(0)!r}; write {rest.rstrip('/')!r}{hint}"
        )
    pieces = [piece.strip() for piece in text.split(";")]
    if pieces[-1] == "" and len(pieces) > 1:
        pieces.pop()
    parsed = [_parse_address(piece, text) for piece in pieces]
    return _endpoint(parsed, text)


NAMESRV = "namesrv://"
"""Prefix of an endpoint of the remoting protocol."""


def parse_name_servers(text: str) -> Endpoint:
    """Parse `namesrv://host:port;host:port` as `parse_addresses` does."""
    addresses = parse_addresses(text.strip().removeprefix(NAMESRV))
    return Endpoint(_scheme_of(addresses[0].host), addresses)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse a `;`-separated list of at least one server; host names are allowed.

    Raises ValueError with one sentence that shows the malformed part."""
    addresses = tuple(parse_endpoint(piece).addresses[0] for piece in text.split(";") if piece.strip())
    if not addresses:
        raise ValueError(f"{text!r} names no server; write 'host:port', several separated by ';'")
    return addresses


@lru_cache(maxsize=1024)
def endpoint_of(addresses: tuple[Address, ...]) -> Endpoint:
    """Return the endpoint of the addresses in a server's answer, of which there is at least one.

    Raises ValueError as `parse_endpoint` does. Its kind follows from the hosts alone: one that does not fit them could
    not be connected to."""
    # The text is for errors only: it names one address instead of thousands.
    schemes = [_checked_scheme(each.host, each.port, _shown(str(each))) for each in addresses]
    return _endpoint(tuple(zip(schemes, addresses, strict=True)), _shown(str(addresses[0])))


def _endpoint(parsed: Sequence[tuple[Scheme, Address]], whole: str) -> Endpoint:
    scheme = parsed[0][0]
    if any(other is not scheme for other, _ in parsed):
        raise ValueError(f"endpoint {whole!r} mixes kinds of addresses; several must be all IPv4 or all IPv6")
    if scheme is Scheme.DOMAIN_NAME and len(parsed) > 1:
        raise ValueError(
            f"endpoint {whole!r} lists several host names; give one name that resolves to all servers, "
            "or IP addresses"
        )
    return Endpoint(scheme, tuple(address for _, address in parsed))


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_HOST + 8 else f"{text[:_MAX_HOST]}…"


def _parse_address(piece: str, whole: str) -> tuple[Scheme, Address]:
    host, port_text = _split(piece, whole)
    is_number = port_text.isascii() and port_text.isdigit() and len(port_text) <= 5
    port = int(port_text) if is_number else port_text
    return _checked_scheme(host, port, whole), Address(host, int(port))


def _checked_scheme(host: str, port: int | str, whole: str) -> Scheme:
    """Return the kind of `host`; ValueError if host or port is invalid."""
    if not isinstance(port, int) or not 1 <= port <= 65535:
        raise ValueError(f"endpoint {whole!r} has the port {str(port)!r}; a port is a number from 1 to 65535")
    scheme = _scheme_of(host)
    zone = host.partition("%")[2]
    if scheme is Scheme.IPV6 and zone and not _ZONE.fullmatch(zone):
        raise ValueError(f"endpoint {whole!r} has {_shown(zone)!r} as zone, which names no interface")
    if scheme is not Scheme.DOMAIN_NAME:
        return scheme
    if len(host) > _MAX_HOST or not _HOST_NAME.fullmatch(host):
        raise ValueError(
            f"endpoint {whole!r} has {_shown(host)!r} as host, which is neither a host name nor an IP address"
        )
    if re.fullmatch(r"[0-9.]+", host):
        raise ValueError(f"endpoint {whole!r} has {host!r} as host, which is not a valid IPv4 address")
    return scheme


def _split(piece: str, whole: str) -> tuple[str, str]:
    if piece.startswith("["):
        host, bracket, rest = piece[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"endpoint {whole!r} is malformed; write an IPv6 address as '[::1]:8081'")
        if _scheme_of(host) is not Scheme.IPV6:
            raise ValueError(f"endpoint {whole!r} has {host!r} in brackets, which is not an IPv6 address")
        if not rest[1:]:
            raise ValueError(f"endpoint {whole!r} has no port; write '[{host}]:8081' ({_PORTS})")
        return host, rest[1:]
    if piece.count(":") > 1:
        raise ValueError(
            f"endpoint {whole!r} looks like IPv6; write it in brackets with a port, '[::1]:8081'"
        )
    host, colon, port = piece.partition(":")
    if not host:
        raise ValueError(f"endpoint {whole!r} has no host; write 'host:port', for instance 'localhost:8081'")
    if not colon or not port:
        raise ValueError(f"endpoint {whole!r} has no port; write '{host}:8081' ({_PORTS})")
    return host, port


def _scheme_of(host: str) -> Scheme:
    try:
        IPv4Address(host)
    except AddressValueError:
        pass
    else:
        return Scheme.IPV4
    try:
        IPv6Address(host)
    except AddressValueError:
        return Scheme.DOMAIN_NAME
    return Scheme.IPV6
