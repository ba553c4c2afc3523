"""Floods one connection to a fake broker's port, and measures what another client notices of it.

`python -m tools.doors [FLOOD …] [--option NAME=VALUE]`. Each flood runs against a `fake serve` of its own. A line tells
what the flood got through before the server ended its connection or the `--seconds` were over, the longest answer that
another client waited for meanwhile, and processor time and peak of memory of the server. `--option` sets one more
option of grpcio, to see what it bounds. Measured so (5 s each, a busy machine, wait of the neighbour):
`grpc.max_concurrent_streams=10000` takes opened streams from 3.0 s and 236 MiB to 0.9 s and 131 MiB, and resets from
2.5 s to 1.3 s with half the CPU. Nothing was gained by `grpc.http2.max_requests_per_read`,
`grpc.http2.ping_on_rst_stream_percent` and `grpc.server.max_pending_requests`, and nothing bounds references (26 s,
943 MiB): neither `grpc.http2.hpack_table_size.decoder=0` nor smaller metadata, for each reference costs a microsecond.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from grpc import aio

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0x0, 0x1, 0x3, 0x4, 0x6, 0x9
END_HEADERS = 0x4
PROGRAM = """
import sys
from aiorocketmq_fake.edge import grpc_server
options = dict(pair.split("=", 1) for pair in sys.argv.pop(1).split(",") if pair)
grpc_server.OPTIONS += tuple((name, int(value)) for name, value in options.items())
from aiorocketmq.cli import main
main()
"""


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Write one HTTP/2 frame."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def literal(name: str, value: str) -> bytes:
    """Write a header that the other side need not remember."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _number(len(raw), 7) + raw


def _number(value: int, bits: int, first: int = 0) -> bytes:
    """Write an integer as HPACK does, into the low `bits` of `first` and what must follow."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    rest, out = value - most, bytearray((first | most,))
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*out, rest))


CALL = b"".join(
    literal(name, value)
    for name, value in {
        ":method": "POST",
        ":scheme": "http",
        ":path": METHODS["QueryRoute"].path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }.items()
)


def resets() -> Iterator[bytes]:
    """Open a stream and reset it at once ("rapid reset")."""
    cancel = (8).to_bytes(4)
    for stream in range(1, 1 << 24, 2):
        yield frame(HEADERS, stream, CALL, END_HEADERS) + frame(RST_STREAM, stream, cancel)


def streams() -> Iterator[bytes]:
    """Open streams and say no more on them."""
    for stream in range(1, 1 << 24, 2):
        yield frame(HEADERS, stream, CALL, END_HEADERS)


def references() -> Iterator[bytes]:
    """Let the other side remember one long header, and name it sixteen thousand times in each list of headers."""
    remembered = b"\x40" + _text("x") + _text("y" * 3900)
    yield frame(HEADERS, 1, CALL + remembered, END_HEADERS)
    for stream in range(3, 1 << 24, 2):
        yield frame(HEADERS, stream, CALL + b"\xbe" * 16_000, END_HEADERS)


def continuations() -> Iterator[bytes]:
    """Send one list of headers that never ends."""
    yield frame(HEADERS, 1, CALL)
    while True:
        yield frame(CONTINUATION, 1, literal("x", "y" * 100) * 100)


def pings() -> Iterator[bytes]:
    """Ask for signs of life."""
    while True:
        yield frame(PING, 0, bytes(8)) * 100


def settings() -> Iterator[bytes]:
    """Change settings, each of which is to be confirmed."""
    while True:
        yield frame(SETTINGS, 0) * 100


def empty_data() -> Iterator[bytes]:
    """Send a request in pieces of nothing."""
    yield frame(HEADERS, 1, CALL, END_HEADERS)
    while True:
        yield frame(DATA, 1) * 100


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    each.__name__: each for each in (resets, streams, references, continuations, pings, settings, empty_data)
}


@dataclass
class Flood:
    """One connection that is flooded for some seconds, in a thread of its own; answers are read and thrown away."""

    endpoint: str
    pieces: Iterator[bytes]
    seconds: float
    sent: int = 0
    is_ended_by_server: bool = False

    def start(self) -> threading.Thread:
        """Begin."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        host, port = self.endpoint.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=5.0) as connection:
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()
            end = time.monotonic() + self.seconds
            try:
                connection.sendall(PREFACE + frame(SETTINGS, 0))
                for piece in self.pieces:
                    connection.sendall(piece)
                    self.sent += len(piece)
                    if time.monotonic() > end:
                        break
            except TimeoutError:
                # A server that reads no further defends itself, too.
                pass
            except OSError:
                self.is_ended_by_server = True

    @staticmethod
    def _read(connection: socket.socket) -> None:
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass


async def longest_answer(endpoint: str, flooding: threading.Thread, patience: float) -> float:
    """Ask for a route again and again while the flood lasts and two seconds more; the longest answer in seconds."""
    method = METHODS["QueryRoute"]
    longest, settled = 0.0, 0.0
    async with aio.insecure_channel(endpoint) as channel:
        ask = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        request = pb.QueryRouteRequest(topic=pb.Resource(name="orders"))
        while settled < 2.0:
            begun = time.monotonic()
            with suppress(aio.AioRpcError):
                await ask(request, timeout=patience, metadata=(("x-mq-client-id", "neighbour"),))
            taken = time.monotonic() - begun
            longest = max(longest, taken)
            await asyncio.sleep(0.01)
            settled = 0.0 if flooding.is_alive() or taken > 0.5 else settled + taken + 0.01
    return longest


def usage(process_id: int) -> tuple[float, float]:
    """Processor seconds and peak MiB of a process (Linux)."""
    with open(f"/proc/{process_id}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    with open(f"/proc/{process_id}/status", encoding="ascii") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, int(peak.split()[1]) / 1024


def measure(name: str, options: str, seconds: float) -> str:
    """Run one flood against a server of its own; one line of the table."""
    command = [sys.executable, "-c", PROGRAM, options, "fake", "serve", "--topic", "orders"]
    server = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        facts = dict(word.split("=", 1) for word in server.stdout.readline().split()[1:])
        before, peak_before = usage(server.pid)
        flood = Flood(facts["grpc"], FLOODS[name](), seconds)
        longest = asyncio.run(longest_answer(facts["grpc"], flood.start(), patience=90.0))
        after, peak = usage(server.pid)
    finally:
        server.kill()
        server.wait()
    ended = "yes" if flood.is_ended_by_server else "no"
    return (
        f"{name:14} {flood.sent / 1e6:8.1f} {ended:>6} {longest:8.2f} {after - before:8.1f} "
        f"{peak_before:8.0f} {peak:8.0f}"
    )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.doors", description=__doc__)
    parser.add_argument("floods", nargs="*", metavar="FLOOD", help=", ".join(FLOODS))
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    if unknown := set(given.floods) - FLOODS.keys():
        parser.error(f"no flood is called {', '.join(sorted(unknown))}: use {', '.join(FLOODS)}.")
    print(f"{'flood':14} {'MB sent':>8} {'ended':>6} {'wait s':>8} {'CPU s':>8} {'MiB':>8} {'peak MiB':>8}")
    for name in given.floods or FLOODS:
        print(measure(name, ",".join(given.option), given.seconds), flush=True)


if __name__ == "__main__":
    main()
