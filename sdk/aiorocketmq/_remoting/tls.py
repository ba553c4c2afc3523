"""TLS of the remoting protocol, from the same settings as for gRPC."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

from aiorocketmq.config import Tls


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return the SSL context for `tls`. Blocks while it reads files; raises OSError or ssl.SSLError for invalid
    ones."""
    context = ssl.create_default_context()
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is not None:
        context.load_verify_locations(cadata=_pem(tls.ca))
    if tls.certificate is not None and tls.key is not None:
        with ExitStack() as stack:  # the standard library reads a chain from files only
            names = []
            for item in (tls.certificate, tls.key):
                file = stack.enter_context(NamedTemporaryFile("w", encoding="ascii", suffix=".pem"))
                file.write(_pem(item))
                file.flush()
                names.append(file.name)
            context.load_cert_chain(*names)
    return context


def _pem(given: str | Path | bytes) -> str:
    return given.decode("ascii") if isinstance(given, bytes) else Path(given).read_text("ascii")
