"""`FakeRocketMQContainer`: the fake broker in a container, for clients of any language."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from aiorocketmq_fake.testcontainers.container import ServerContainer

__all__ = ["FakeRocketMQContainer"]


class FakeRocketMQContainer(ServerContainer):
    """The fake broker in a container, from an image of this repository's Dockerfile.

    A test in Python needs no container for the fake (`FakeBroker` runs in its process); this one is for suites that run
    the same tests on a real server, and for programs in containers.
    """

    def __init__(
        self,
        image: str = "aiorocketmq-fake",
        *,
        grpc_port: int = 0,
        namesrv_port: int = 0,
        control_port: int = 0,
        host: str | None = None,
        arguments: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """Prepare; ContainerError if no container engine answers.

        Ports and `host` are those of `RocketMQContainer`. `arguments` are further ones of `aiorocketmq fake serve`,
        such as `("--profile", "apache-5.5")`; all other keywords are those of `DockerContainer` (Any: of many types).
        """
        ports = {"grpc": grpc_port, "namesrv": namesrv_port, "control": control_port}
        # The image's own check asks at the port of its own command.
        super().__init__(image, ports=ports, host=host, **{"healthcheck": {"test": ["NONE"]}, **options})
        self._arguments = tuple(arguments)

    @property
    def control(self) -> str:
        """`host:port` of the control service, for `FakeBrokerClient` and `aiorocketmq fake ctl`."""
        return self._address("control")

    @property
    def _ready_line(self) -> str:
        return "^ready grpc="

    def _files(self, host: str, ports: Mapping[str, int]) -> Mapping[str, str]:
        command = (
            *("aiorocketmq", "fake", "serve", "--advertise", host),
            *("--listen", f"0.0.0.0:{ports['grpc']}", "--control", f"0.0.0.0:{ports['control']}"),
            *("--remoting-port", str(ports["namesrv"])),
            *self._arguments,
        )
        return {"start.sh": f"exec {shlex.join(command)}\n"}
