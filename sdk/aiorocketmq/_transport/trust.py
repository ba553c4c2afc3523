"""Certificates and keys for TLS: read from files, or fetched from the server on first use."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import overload

import anyio.to_thread

from aiorocketmq._core.certificates import name_in
from aiorocketmq._core.endpoint import Address
from aiorocketmq.config import Tls

_CONNECT_SECONDS = 3.0


@overload
def read_pem(source: str | Path | bytes) -> bytes: ...


@overload
def read_pem(source: None) -> None: ...


def read_pem(source: str | Path | bytes | None) -> bytes | None:
    """Return the content of a PEM file or PEM text; None stays None."""
    return source if source is None or isinstance(source, bytes) else Path(source).read_bytes()


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return the SSL context for `tls`. Blocks while it reads files; raises OSError or ssl.SSLError for invalid
    ones."""
    if tls.insecure:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif isinstance(tls.ca, bytes):  # the system's roots are trusted only if no others are given
        context = ssl.create_default_context(cadata=tls.ca.decode("ascii"))
    else:
        context = ssl.create_default_context(cafile=tls.ca)
    if tls.certificate is not None and tls.key is not None:
        with ExitStack() as stack:  # the standard library reads a chain from files only
            names = []
            for item in (tls.certificate, tls.key):
                file = stack.enter_context(NamedTemporaryFile(suffix=".pem"))
                file.write(read_pem(item))
                file.flush()
                names.append(file.name)
            context.load_cert_chain(*names)
    return context


async def first_seen_certificate(address: Address) -> tuple[bytes, str]:
    """Return the certificate of `address`, as PEM, and the name in it; OSError if there is none."""
    pem = await anyio.to_thread.run_sync(
        lambda: ssl.get_server_certificate((address.host, address.port), timeout=_CONNECT_SECONDS)
    )
    return pem.encode(), name_in(ssl.PEM_cert_to_DER_cert(pem)) or address.host
