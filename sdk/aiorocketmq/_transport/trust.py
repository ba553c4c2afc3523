"""Certificates and keys for TLS: read from files, or fetched from the server on first use."""

from __future__ import annotations

import ssl
from pathlib import Path

import anyio.to_thread

from aiorocketmq._core.certificates import name_in
from aiorocketmq._core.endpoint import Address

_CONNECT_SECONDS = 3.0


def read_pem(source: str | Path | bytes | None) -> bytes | None:
    """Return the content of a PEM file or PEM text; None stays None."""
    return source if source is None or isinstance(source, bytes) else Path(source).read_bytes()


async def first_seen_certificate(address: Address) -> tuple[bytes, str]:
    """Return the certificate of `address`, as PEM, and the name in it; OSError if there is none."""
    pem = await anyio.to_thread.run_sync(
        lambda: ssl.get_server_certificate((address.host, address.port), timeout=_CONNECT_SECONDS)
    )
    return pem.encode(), name_in(ssl.PEM_cert_to_DER_cert(pem)) or address.host
