"""Certificates and keys for TLS: read from files, or taken from the server at first sight."""

from __future__ import annotations

import ssl
from pathlib import Path

import anyio.to_thread

from aiorocketmq._core.certificates import name_in
from aiorocketmq._core.endpoint import Address

_CONNECT_SECONDS = 3.0


def read_pem(source: str | Path | bytes | None) -> bytes | None:
    """The bytes of a PEM file or of PEM text; None stays None."""
    return source if source is None or isinstance(source, bytes) else Path(source).read_bytes()


async def first_seen_certificate(address: Address) -> tuple[bytes, str]:
    """The certificate that `address` shows, as PEM, and the name it is made out to; OSError where there is
    none."""
    pem = await anyio.to_thread.run_sync(
        lambda: ssl.get_server_certificate((address.host, address.port), timeout=_CONNECT_SECONDS)
    )
    return pem.encode(), name_in(ssl.PEM_cert_to_DER_cert(pem)) or address.host
