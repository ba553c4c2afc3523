"""Certificates and keys for TLS: read from files, or taken from the server at first sight."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

import anyio.to_thread

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
    return pem.encode(), _name_in(pem) or address.host


def _name_in(pem: str) -> str | None:
    """The first name of a certificate; the standard library decodes only what a context was told to trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(pem)
        context.load_verify_locations(path)
    finally:
        os.unlink(path)
    certificates: list[dict[str, Any]] = context.get_ca_certs()  # nested tuples of no fixed depth
    for certificate in certificates:
        for kind, value in certificate.get("subjectAltName", ()):
            if kind in ("DNS", "IP Address"):
                return str(value)
        for entry in certificate.get("subject", ()):
            for key, value in entry:
                if key == "commonName":
                    return str(value)
    return None
