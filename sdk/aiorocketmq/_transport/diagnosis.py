"""Diagnoses why an endpoint cannot be reached, by plain sockets, since a failed call has too little information."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct

import anyio.to_thread

from aiorocketmq._core.endpoint import Address, Endpoint
from aiorocketmq._transport.interface import Diagnosis
from aiorocketmq._transport.trust import ssl_context
from aiorocketmq.config import Tls

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_SETTINGS_FRAME = 4
_ROUTE_OF_A_DEFAULT_TOPIC = {
    "code": 105,
    "language": "PYTHON",
    "version": 0,
    "opaque": 1,
    "flag": 0,
    "extFields": {"topic": "TBW102"},
}


async def diagnose(endpoint: Endpoint, tls: Tls | None, *, step: float) -> Diagnosis:
    """Examine the first address of `endpoint`, in up to five steps of at most `step` seconds."""
    probe = _Probe(endpoint.addresses[0], step)
    try:
        await probe.connect()
    except socket.gaierror:
        return Diagnosis(f"the host {probe.address.host!r} is unknown; check the name", is_final=False)
    except ConnectionRefusedError:
        return Diagnosis("nothing listens there; check the port, and that the server runs", is_final=False)
    except TimeoutError:
        return Diagnosis("it does not answer; check host, port and firewall", is_final=False)
    except OSError as error:
        return Diagnosis(f"it cannot be connected to ({error})", is_final=False)
    return await (_diagnose_plain(probe) if tls is None else _diagnose_tls(probe, tls))


async def _diagnose_plain(probe: _Probe) -> Diagnosis:
    if await probe.speaks_http2():
        return Diagnosis(
            "it accepts connections but does not answer; look at the server's log", is_final=False
        )
    if await probe.speaks_remoting():
        return _REMOTING
    if await probe.shows_certificate():
        return Diagnosis("it speaks TLS; give tls=Tls()", is_final=True)
    return _FOREIGN


async def _diagnose_tls(probe: _Probe, tls: Tls) -> Diagnosis:
    # Servers of the classic protocol also accept TLS on the same port; a proxy does not answer their plain text.
    if await probe.speaks_remoting():
        return _REMOTING
    problem = await probe.tls_problem(tls)
    if problem is None:
        return Diagnosis("it accepts TLS but does not answer; look at the server's log", is_final=False)
    if problem.startswith("certificate"):
        return Diagnosis(
            f"its {problem}; give tls=Tls(ca=..., server_name=...) that fit, or Tls(insecure=True)",
            is_final=True,
        )
    if await probe.speaks_http2():
        return Diagnosis("it speaks plain text, not TLS; leave tls out", is_final=True)
    return Diagnosis(f"the TLS handshake fails ({problem})", is_final=True)


_REMOTING = Diagnosis(
    "it is a name server or broker port of the classic protocol (often 9876 or 10911), not the gRPC port of a proxy; "
    "give the proxy's port, usually 8081",
    is_final=True,
)
_FOREIGN = Diagnosis(
    "it is not the gRPC port of a RocketMQ proxy: it closes or answers something else; give the proxy's port, "
    "usually 8081",
    is_final=True,
)


class _Probe:
    """Examines one address; each step is a connection of its own and takes at most `step` seconds."""

    def __init__(self, address: Address, step: float) -> None:
        self.address = address
        self._step = step

    async def connect(self) -> None:
        """Connect and disconnect; OSError or TimeoutError if that fails."""
        _, writer = await self._open()
        await self._end(writer)

    async def speaks_http2(self) -> bool:
        """Whether it answers an HTTP/2 client like a server of that protocol."""
        answer = await self._ask(_HTTP2_PREFACE, 9)
        return len(answer) >= 4 and answer[3] == _SETTINGS_FRAME

    async def speaks_remoting(self) -> bool:
        """Whether it answers a frame of the classic protocol with one; any request gets an answer with a header."""
        header = json.dumps(_ROUTE_OF_A_DEFAULT_TOPIC).encode()
        frame = struct.pack(">II", 4 + len(header), len(header)) + header
        answer = await self._ask(frame, 9)
        return len(answer) > 8 and answer[8:9] == b"{" and struct.unpack(">I", answer[:4])[0] < 1 << 24

    async def shows_certificate(self) -> bool:
        """Whether a TLS handshake succeeds, whatever the certificate."""
        try:
            _, writer = await self._open(ssl_context(Tls(insecure=True)))
        except (OSError, TimeoutError):
            return False
        await self._end(writer)
        return True

    async def tls_problem(self, tls: Tls) -> str | None:
        """Why a TLS handshake with these settings fails, or None."""
        try:
            _, writer = await self._open(await anyio.to_thread.run_sync(ssl_context, tls), tls.server_name)
        except ssl.SSLCertVerificationError as error:
            return f"certificate is not trusted ({error.verify_message})"
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return error.strerror or str(error) or type(error).__name__
        await self._end(writer)
        return None

    async def _ask(self, request: bytes, length: int) -> bytes:
        """Return its answer to `request`: up to `length` bytes, fewer if it closes or stays silent."""
        answer = b""
        try:
            reader, writer = await self._open()
        except (OSError, TimeoutError):
            return answer
        try:
            async with asyncio.timeout(self._step):
                writer.write(request)
                while len(answer) < length and (part := await reader.read(length - len(answer))):
                    answer += part
        except (OSError, TimeoutError):
            return answer
        finally:
            await self._end(writer)
        return answer

    async def _open(
        self, context: ssl.SSLContext | None = None, name: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = self.address.host
        async with asyncio.timeout(self._step):
            return await asyncio.open_connection(
                host, self.address.port, ssl=context, server_hostname=(name or host) if context else None
            )

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        try:
            async with asyncio.timeout(self._step):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            return
