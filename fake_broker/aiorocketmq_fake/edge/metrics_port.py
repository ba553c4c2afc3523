"""The HTTP port for Prometheus to scrape."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.metrics import Metrics

__all__ = ["MetricsPort"]

# Limits of a request in seconds and bytes.
PATIENCE = 10.0
REQUEST_MAX = 16_384


class MetricsPort:
    """Answers `GET /metrics`, one request for each connection.

    It runs on the broker's own loop, between commands: a thread would see inconsistent state.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; port 0 picks a free one. Return the port; OSError if it is unavailable."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_MAX)
        except OSError as failed:
            raise OSError(f"cannot listen on {join(host, port)} for metrics: {failed.strerror}.") from failed
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening; a second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that disconnects or sends no request gets no answer; the broker does not wait for it.
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head.decode("latin-1")))
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path not in ("/metrics", "/"):
            return _response("404 Not Found", "text/plain", b"The metrics are at /metrics.\n")
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "text/plain", b"Ask with GET.\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        content_type, page = self._metrics.page(headers.get("accept", ""))
        return _response("200 OK", content_type, page, with_body=method == "GET")


def _response(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode("latin-1") + b"Connection: close\r\n\r\n" + (body if with_body else b"")
