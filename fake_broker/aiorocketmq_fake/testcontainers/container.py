"""What both containers share: ports that are the same inside and outside, the start, topics and groups, errors.

Servers of RocketMQ report in routes the ports that they listen on, and know no others. So each port is chosen on the
host before the container exists, and has the same number inside. The host in routes is known once the container runs:
it waits for its configuration, and only then starts the server.
"""

from __future__ import annotations

import io
import socket
import tarfile
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Any, Self, TypeVar

from aiorocketmq.admin import Admin, TopicType
from aiorocketmq.errors import RocketMQError
from anyio.from_thread import start_blocking_portal

try:
    import docker.errors
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.docker_client import DockerClient
    from testcontainers.core.wait_strategies import CompositeWaitStrategy, LogMessageWaitStrategy
    from testcontainers.core.waiting_utils import WaitStrategy, WaitStrategyTarget
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"containers need {missing.name}: run pip install 'aiorocketmq[testcontainers]'.", name=missing.name
    ) from missing

from aiorocketmq_fake.testcontainers.errors import ContainerError

__all__ = ["HOME", "ServerContainer", "image_variables"]

T = TypeVar("T")

HOME = "/tmp/aiorocketmq"
"""Folder of the server's files inside the container."""
STARTUP = 300
"""Seconds until a server must be ready: a real one takes 6 s on two idle cores, and took over 120 on loaded ones."""
# Another program may take a port between its choice and the start of the container.
_TRIES = 3
_LAST_LINES = 5
_WAIT = f"until [ -e {HOME}/complete ]; do sleep 0.1; done; exec sh {HOME}/start.sh"


class ServerContainer(DockerContainer):
    """A server of RocketMQ in a container; `with` starts and removes it."""

    def __init__(self, image: str, *, ports: Mapping[str, int], host: str | None, **options: Any) -> None:
        """Prepare; `ports` are host ports by name, 0 picks a free one."""
        for name, port in ports.items():
            if not 0 <= port <= 65_535:
                raise ValueError(f"the port {name} must be 0 to 65535 (0 picks a free one), got {port}")
        try:
            super().__init__(image, **options)
        except docker.errors.DockerException as error:
            raise _no_engine(error) from error
        self._wanted_ports = dict(ports)
        self._host = host
        self._ready: WaitStrategy | None = None

    # What the two kinds decide.

    @abstractmethod
    def _files(self, host: str, ports: Mapping[str, int]) -> Mapping[str, str]:
        """Return the files under `HOME` by name, `start.sh` among them; routes shall name `host` and `ports`."""

    @property
    @abstractmethod
    def _ready_line(self) -> str:
        """A line of the server's output when it is ready, as a regular expression."""

    # Starting

    def waiting_for(self, strategy: WaitStrategy) -> Self:
        """Wait for this after the start, instead of the server's ready line and its registration."""
        self._ready = strategy
        return self

    def start(self) -> Self:
        """Start the server and wait until clients can use it; ContainerError if it cannot, with its last output.

        Nothing is left behind then.
        """
        try:
            self._run()
            self._await_ready()
        except BaseException:
            self._discard()
            raise
        return self

    def _run(self) -> None:
        # Private attributes of the library: what its users set must stay theirs.
        self._command = [_WAIT]
        self._kwargs = {**self._kwargs, "entrypoint": ["/bin/sh", "-c"]}
        for left in reversed(range(_TRIES)):
            chosen = _choose(self._wanted_ports)
            self.ports = {str(port): port for port in chosen.values()}
            try:
                super().start()
            except docker.errors.DockerException as error:
                is_taken = any(text in str(error) for text in ("already allocated", "address already in use"))
                if not is_taken or left == 0 or all(self._wanted_ports.values()):
                    raise ContainerError(self._refusal(error, chosen, is_taken=is_taken)) from error
                self._discard()
            else:
                break
        self._chosen_ports = chosen
        self._place(self._files(self._announced_host(), chosen))

    def _refusal(
        self, error: docker.errors.DockerException, ports: Mapping[str, int], *, is_taken: bool
    ) -> str:
        reason = _reason(error)
        if is_taken:
            numbers = ", ".join(str(port) for port in ports.values())
            return (
                f"a port of {numbers} is taken on this machine ({reason}): free it, or let 0 pick another one"
            )
        if testcontainers_config.ryuk_image.partition(":")[0] in str(error):
            return (
                f"the reaper of testcontainers cannot be started ({reason}): "
                "set TESTCONTAINERS_RYUK_DISABLED=true where its image cannot be pulled"
            )
        if self._container is None:
            return _no_image(self.image, error)
        return f"the engine did not start a container of {self.image}: {reason}"

    def _announced_host(self) -> str:
        # An address: the server resolves its own host, and need not know the names of this machine.
        return self._host or socket.gethostbyname(self.get_container_host_ip())

    def _place(self, files: Mapping[str, str]) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            home = tarfile.TarInfo("aiorocketmq")
            # For whichever user the image runs as.
            home.type, home.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(home)
            # The waiting command looks for the last one.
            for name, text in {**files, "complete": ""}.items():
                entry = tarfile.TarInfo(f"aiorocketmq/{name}")
                entry.size, entry.mode = len(text.encode()), 0o644
                tar.addfile(entry, io.BytesIO(text.encode()))
        self.get_wrapped_container().put_archive("/tmp", archive.getvalue())

    def _await_ready(self) -> None:
        strategy = self._ready
        if strategy is None:
            strategy = CompositeWaitStrategy(LogMessageWaitStrategy(self._ready_line), _Registered())
            strategy.with_startup_timeout(STARTUP).with_poll_interval(0.1)
        try:
            strategy.wait_until_ready(self)
        except (TimeoutError, RuntimeError) as error:
            lines = self.log().splitlines()
            last = " / ".join(line.strip() for line in lines[-_LAST_LINES:]) or "nothing"
            failed = ContainerError(f"the server in {self.image} did not become ready; last output: {last}")
            failed.add_note("\n".join(lines))
            raise failed from error

    def _discard(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            container.remove(force=True, v=True)

    def log(self, *, since: datetime | None = None) -> str:
        """Return the output of the server, since an aware moment or all of it."""
        output: bytes = self.get_wrapped_container().logs(since=since and since.timestamp())
        return output.decode(errors="replace")

    # Addresses

    def _address(self, name: str) -> str:
        if self._container is None:
            raise ContainerError("the container has no addresses before it was started: use it inside `with`")
        return f"{self._announced_host()}:{self._chosen_ports[name]}"

    @property
    def endpoint(self) -> str:
        """`host:port` of the gRPC service, for all clients."""
        return self._address("grpc")

    @property
    def namesrv(self) -> str:
        """`namesrv://host:port` of the name server, for `Admin` and for clients of the classic protocol."""
        return f"namesrv://{self._address('namesrv')}"

    def is_registered(self) -> bool:
        """Return True once the broker has registered; RocketMQError until then."""

        async def is_connected(admin: Admin) -> bool:
            return True

        return self._administer(is_connected)

    # Topics and groups

    def create_topic(self, topic: str, *, type: TopicType | str = TopicType.NORMAL, queues: int = 8) -> None:  # noqa: A002
        """Create a topic or replace its settings, as `Admin.create_topic`; blocks, also an event loop's thread."""
        self._administer(lambda admin: admin.create_topic(topic, type=type, queues=queues))

    def create_group(self, group: str, *, ordered: bool = False, max_attempts: int = 17) -> None:
        """Create a consumer group or replace its settings, as `Admin.create_group`."""
        self._administer(lambda admin: admin.create_group(group, ordered=ordered, max_attempts=max_attempts))

    def _administer(self, act: Callable[[Admin], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with Admin(self.namesrv) as admin:
                return await act(admin)

        # A loop of its own: the caller may be in one.
        with start_blocking_portal() as portal:
            return portal.call(connected)


class _Registered(WaitStrategy):
    """Waits until the name server has a route to the broker, which reports that it is ready a moment before."""

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:
        assert isinstance(container, ServerContainer)
        if not self.with_transient_exceptions(RocketMQError)._poll(container.is_registered):
            raise TimeoutError("the broker did not register with its name server")


def _choose(wanted: Mapping[str, int]) -> dict[str, int]:
    """Return a port for each name: the wanted one, or a free one for 0."""
    with ExitStack() as stack:
        chosen = dict(wanted)
        for name, port in wanted.items():
            if port == 0:
                probe = stack.enter_context(socket.socket())
                probe.bind(("", 0))
                chosen[name] = probe.getsockname()[1]
        return chosen


def image_variables(image: str) -> Mapping[str, str]:
    """Return the variables that an image sets; pull it if it is not here. ContainerError without image or engine."""
    try:
        client = DockerClient().client
    except docker.errors.DockerException as error:
        raise _no_engine(error) from error
    try:
        try:
            local = client.images.get(image)
        except docker.errors.ImageNotFound:
            local = client.images.pull(image)
    except docker.errors.APIError as error:
        raise ContainerError(_no_image(image, error)) from error
    finally:
        client.close()
    return dict(line.split("=", 1) for line in local.attrs["Config"]["Env"] or ())


def _no_engine(error: docker.errors.DockerException) -> ContainerError:
    return ContainerError(
        f"no container engine answers ({_reason(error)}): start Docker, or let DOCKER_HOST name its socket"
    )


def _no_image(image: str, error: docker.errors.DockerException) -> str:
    return f"the image {image} is not here and cannot be pulled ({_reason(error)}): build or load it, or check its name"


def _reason(error: docker.errors.DockerException) -> str:
    explanation = getattr(error, "explanation", None) or str(error)
    return " ".join(str(explanation).split())
