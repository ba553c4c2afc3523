"""Endpoints: `HOST:PORT`, an IPv6 host in brackets."""

from __future__ import annotations

__all__ = ["join", "split"]


def split(endpoint: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`; ValueError for anything else."""
    host, colon, port = endpoint.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(
            f"{endpoint!r} is not HOST:PORT: write an IPv6 host in brackets, such as [::1]:8081."
        )
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError(
            f"{endpoint!r} is not HOST:PORT: write for example 127.0.0.1:8081 (port 0 picks a free one)."
        )
    return host, int(port)


def join(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
