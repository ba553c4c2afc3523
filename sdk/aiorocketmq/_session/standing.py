"""What the parts of a session see of it: the view that lets them be built, and read, apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from aiorocketmq._aio.tasks import Arguments, Result, Watch
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.headers import Headers
from aiorocketmq._core.settings import Declaration
from aiorocketmq._session.calls import Call, Request, Response
from aiorocketmq._session.settings_stream import Link
from aiorocketmq._transport.interface import Transport
from aiorocketmq._transport.network import Environment, Network
from aiorocketmq.config import Timeouts
from aiorocketmq.wire import messages as pb


class Standing(Protocol):
    """A client's standing with its servers; `Session` is it."""

    network: Network
    timeouts: Timeouts
    access: Endpoint
    declaration: Declaration
    links: dict[Endpoint, Link]
    isolated: set[Endpoint]
    client_id: str

    @property
    def group(self) -> str | None:
        """The consumer group, where there is one."""

    @property
    def environment(self) -> Environment:
        """Wall clock and chance."""

    @property
    def transport(self) -> Transport:
        """The network."""

    def check_running(self) -> None:
        """Raise ClosedError unless the client is usable."""

    def resource(self, name: str) -> pb.Resource:
        """A topic or group, in this client's namespace."""

    def log_facts(self) -> Mapping[str, object]:
        """What every log record of this client carries."""

    async def sign(self) -> None:
        """Take the credentials as they are now."""

    async def call_early(
        self,
        endpoint: Endpoint,
        call: Call[Request, Response],
        request: Request,
        *,
        topic: str | None = None,
        group: str | None = None,
    ) -> Response:
        """Make one call that is allowed before the client is usable, and is not repeated."""

    async def write_settings(self) -> None:
        """Send our settings on every open stream."""

    async def resync(self, endpoint: Endpoint) -> None:
        """Make an endpoint know our settings again."""

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Make the connection to an endpoint anew, and its stream; calls under way have `grace` seconds to end."""

    def keep_link(self, endpoint: Endpoint) -> Link:
        """Keep a settings stream to an endpoint open from now on."""

    def drop_link(self, endpoint: Endpoint) -> None:
        """Close the settings stream of an endpoint that no route names any more."""

    def spawn(
        self,
        function: Callable[[*Arguments], Coroutine[Any, Any, Result]],  # what it awaits is its own business
        *arguments: *Arguments,
        name: str,
    ) -> asyncio.Task[Result]:
        """Run a task that ends with the session at the latest."""

    def supervise(
        self,
        function: Callable[[Watch, *Arguments], Coroutine[Any, Any, None]],
        *arguments: *Arguments,
        name: str,
    ) -> asyncio.Task[None]:
        """Run a task that ends with the session at the latest, and start it again if it fails."""

    def next_headers(self) -> tuple[Headers, str]:
        """Headers and request id of a new call."""
