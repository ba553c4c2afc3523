"""Free ports and configuration files of an Apache installation on this machine; live-broker.md section 1."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from pathlib import Path

from aiorocketmq_fake.testcontainers.apache import Ports, configuration

from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError

# Below the range from which systems take ports for outgoing connections.
_PORTS = range(20000, 32000)


def free_ports(rng: random.Random) -> Ports:
    """Return ports that are free at this moment; raises ApacheUnavailableError if there are none."""
    for _ in range(200):
        base = rng.randrange(_PORTS.start, _PORTS.stop, 10)
        if all(_is_free(base + step) for step in range(8)):
            return Ports(namesrv=base, broker=base + 3, grpc=base + 5, remoting=base + 6)
    raise ApacheUnavailableError(
        f"no eight free ports in a row between {_PORTS.start} and {_PORTS.stop}: stop some servers."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def write_configuration(
    home: Path, ports: Ports, settings: Mapping[str, str], proxy_settings: Mapping[str, object] | None = None
) -> None:
    """Write the configuration files under `home`, with further `settings` of the broker and of the proxy."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for name, text in configuration(home, ports, settings=settings, proxy_settings=proxy_settings).items():
        (home / name).write_text(text, encoding="utf-8")
