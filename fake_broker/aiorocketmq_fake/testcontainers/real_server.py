"""`RocketMQContainer`: a real Apache RocketMQ in one container."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from aiorocketmq_fake.testcontainers.apache import Ports, Program, configuration, programs
from aiorocketmq_fake.testcontainers.container import HOME, ServerContainer
from aiorocketmq_fake.testcontainers.errors import ContainerError

__all__ = ["RocketMQContainer"]

IMAGE = "apache/rocketmq:5.5.0"
# Prints the folder of the jars and, of a version that has one, the proxy's jar.
_LOOK = 'cd "${ROCKETMQ_HOME:-/none}/lib" 2>/dev/null && pwd && ls rocketmq-proxy-*.jar 2>/dev/null || true'


class RocketMQContainer(ServerContainer):
    """A real Apache RocketMQ: name server, broker and, from 5.0 on, proxy in one container.

    `with RocketMQContainer("apache/rocketmq:5.5.0") as server:` starts it, and removes it with its data; clients take
    `server.endpoint`, or `server.namesrv` for the classic protocol.

    The image is Apache's of any version, or another with `java` on its path and `$ROCKETMQ_HOME/lib`. What its scripts
    would configure is not used: the server has small heaps, and creates topics and groups at first use.
    """

    def __init__(
        self,
        image: str = IMAGE,
        *,
        grpc_port: int = 0,
        namesrv_port: int = 0,
        broker_port: int = 0,
        host: str | None = None,
        settings: Mapping[str, str] | None = None,
        proxy_settings: Mapping[str, object] | None = None,
        **options: Any,
    ) -> None:
        """Prepare; ContainerError if no container engine answers.

        Ports are those of this machine, 0 picks free ones. `host` is the host in routes, by default the address where
        testcontainers reaches its containers. For clients in other containers, too, pass one that all of them reach,
        such as the gateway of their Docker network.
        `settings` are lines of broker.conf, `proxy_settings` entries of the proxy's JSON. All other keywords are those
        of `DockerContainer` (Any: they are of many types).
        """
        ports = {"grpc": grpc_port, "namesrv": namesrv_port, "broker": broker_port}
        super().__init__(image, ports=ports, host=host, **options)
        self._settings = settings
        self._proxy_settings = proxy_settings
        self._has_proxy = True

    @property
    def endpoint(self) -> str:
        """`host:port` of the proxy's gRPC service; ContainerError for 4.x servers, which have none."""
        if not self._has_proxy:
            raise ContainerError(
                f"the RocketMQ in {self.image} has no gRPC service: pass `namesrv` to clients, or use an image of 5.x"
            )
        return super().endpoint

    @property
    def _ready_line(self) -> str:
        return "proxy startup successfully" if self._has_proxy else r"The broker\[.*boot success"

    def _files(self, host: str, ports: Mapping[str, int]) -> Mapping[str, str]:
        output = self.exec(["/bin/sh", "-c", _LOOK]).output.decode(errors="replace")
        jars, *proxy = output.split()[:2] or [""]
        if not jars.startswith("/"):
            raise ContainerError(
                f"the image {self.image} has no folder $ROCKETMQ_HOME/lib: pass an image of Apache RocketMQ, such as "
                f"{IMAGE}"
            )
        self._has_proxy = bool(proxy)
        home = PurePosixPath(HOME)
        # The broker also takes the port after its own.
        own = Ports(ports["namesrv"], ports["broker"], ports["grpc"], remoting=ports["broker"] + 2)
        files = configuration(
            home, own, host=host, settings=self._settings, proxy_settings=self._proxy_settings
        )
        mode = "local" if self._has_proxy else "broker"
        namesrv, broker = programs("java", PurePosixPath(jars), home, own, mode=mode)
        return {**files, "start.sh": _script(namesrv, broker)}


def _script(namesrv: Program, broker: Program) -> str:
    """Return a script that starts the name server, waits until it is ready, and becomes the broker's process."""
    # A broker that finds no name server tries again after half a minute.
    return f"""cd {HOME}
{_command(namesrv)} >namesrv.log 2>&1 &
until grep -q {shlex.quote(namesrv.ready)} namesrv.log; do
  kill -0 $! 2>/dev/null || {{ cat namesrv.log; exit 1; }}
  sleep 0.1
done
cat namesrv.log
exec env {_command(broker)}
"""


def _command(program: Program) -> str:
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in program.environment.items())
    return f"{variables} {shlex.join(program.command)}"
