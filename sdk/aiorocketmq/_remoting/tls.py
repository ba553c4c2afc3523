"""TLS of the remoting protocol, from the settings that gRPC takes too."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

from aiorocketmq.config import Tls


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """How to speak TLS as `tls` says. Blocks while it reads files; raises OSError or ssl.SSLError where they do not
    serve."""
    context = ssl.create_default_context()
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is not None:
        context.load_verify_locations(cadata=_pem(tls.ca))
    if tls.certificate is not None and tls.key is not None:
        with ExitStack() as stack:  # the standard library takes a chain from files alone
            names = []
            for given in (tls.certificate, tls.key):
                file = stack.enter_context(NamedTemporaryFile("w", encoding="ascii", suffix=".pem"))
                file.write(_pem(given))
                file.flush()
                names.append(file.name)
            context.load_cert_chain(*names)
    return context


def _pem(given: str | Path | bytes) -> str:
    return given.decode("ascii") if isinstance(given, bytes) else Path(given).read_text("ascii")
