"""Reads the names in a certificate, for clients that trust a server's certificate on first use."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

_COMMON_NAME = bytes.fromhex("0603550403")
_SUBJECT_ALTERNATIVE_NAME = bytes.fromhex("0603551d11")
_DNS, _IP = 0x82, 0x87
_SEQUENCE, _OCTETS, _BOOLEAN = 0x30, 0x04, 0x01


def name_in(certificate: bytes) -> str | None:
    """Return a name of the DER `certificate`: an alternative name, or the subject's common name.

    The standard library decodes certificates only after verification, which is not wanted here. Returns None for
    malformed data."""
    try:
        names = [*_alternative_names(certificate)]
        return names[0] if names else _common_name(certificate)
    except (IndexError, ValueError):
        return None


def _common_name(certificate: bytes) -> str | None:
    # The issuer comes before the subject, so the last common name is the subject's.
    place = certificate.rfind(_COMMON_NAME)
    if place < 0:
        return None
    _, value, _ = _element(certificate, place + len(_COMMON_NAME))
    return value.decode() or None


def _alternative_names(certificate: bytes) -> Iterator[str]:
    place = certificate.find(_SUBJECT_ALTERNATIVE_NAME)
    if place < 0:
        return
    kind, value, after = _element(certificate, place + len(_SUBJECT_ALTERNATIVE_NAME))
    if kind == _BOOLEAN:  # the mark of a critical extension
        kind, value, _ = _element(certificate, after)
    kind, value, _ = _element(value, 0) if kind == _OCTETS else (kind, value, 0)
    place = 0
    while kind == _SEQUENCE and place < len(value):
        name_kind, name, place = _element(value, place)
        if name_kind == _DNS:
            yield name.decode()
        elif name_kind == _IP:
            yield str(ip_address(name))


def _element(data: bytes, place: int) -> tuple[int, bytes, int]:
    """Return the DER element at `place`: its tag, its content, and the position of the next one."""
    kind, length, start = data[place], data[place + 1], place + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(data[start : start + count], "big"), start + count
    if start + length > len(data):
        raise ValueError("the element is cut short")
    return kind, data[start : start + length], start + length
