"""Base class of all client sessions: started and stopped once, with tasks, failure, events and health."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aiorocketmq._aio.forks import watch
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._aio.tasks import MOST_CRASHES, Arguments, Result, Tasks, Watch
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.session_states import CLIENT_TABLE, ClientInput, ClientState, ImpossibleStepError, step
from aiorocketmq._session.events import Emitter
from aiorocketmq._transport.network import Environment, Network, loop_time, new_client_id
from aiorocketmq.errors import BackgroundTaskError, ClosedError, RocketMQError, UsageError
from aiorocketmq.health import Health
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Event, Hook, Phase, Role

logger = logging.getLogger("aiorocketmq.client")

TOPICS_NAMED = 5
"""Topics that the log of a start names."""


class Client(ABC):
    """State and lifecycle common to all clients; a subclass for each wire implements the abstract methods."""

    def __init__(
        self,
        network: Network,
        *,
        owns_network: bool,
        role: Role,
        group: str | None,
        hooks: Sequence[Hook],
    ) -> None:
        self.network = network
        self._owns_network = owns_network
        self.role = role
        self.group = group
        """The consumer group; None for a producer over gRPC."""
        self.timeouts = network.timeouts
        self.namespace = network.namespace
        self.access: Endpoint = network.endpoint
        self.hooks = tuple(hooks)
        self.client_id = ""
        self.emitter = Emitter(self.hooks, ClientIdentity("", role, group))
        self._state = ClientState.NEW
        self.last_success: float | None = None
        """Unix time at which a send was last stored or a receive last answered."""
        self.started_at = 0.0
        """When the start began, by the loop's clock."""
        self.failure: RocketMQError | None = None
        """The error that stopped this client permanently."""
        self.on_failure: list[Callable[[], object]] = []
        """Called once when `failure` is set."""
        self._tasks = Tasks(role.value, random=self.environment.random, gave_up=self._gave_up)
        self._operations = 0
        self._is_orphaned = False

    # What a wire does

    @abstractmethod
    async def _open(self) -> None:
        """Become usable within `timeouts.start`, or raise one error with the reason."""

    @abstractmethod
    def _opened(self) -> None:
        """Begin the regular jobs of a client that is usable."""

    @abstractmethod
    async def _terminate_session(self) -> None:
        """Terminate the session on the servers; cancelled after `timeouts.stop`."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Release what belongs to this client alone; its tasks have been cancelled before."""

    @abstractmethod
    def description(self) -> str:
        """What the client is, on which wire, of which group and topics, and within which limits; for logs."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether every server that the client uses is connected and has answered."""

    @property
    @abstractmethod
    def has_settings(self) -> bool:
        """Whether a server has accepted this client's settings or heartbeat."""

    # Life

    async def start(self) -> None:
        """Become usable within `timeouts.start`, or raise one error with the reason and close everything again."""
        try:
            self._moved(ClientInput.START)
        except ImpossibleStepError:
            raise UsageError(
                f"this {self.role.value} client was started before; create a new one", group=self.group
            ) from None
        watch(self)
        self.started_at = loop_time()
        self.client_id = new_client_id(self.environment, is_remoting=self.network.is_remoting)
        self.emitter.client = ClientIdentity(self.client_id, self.role, self.group)
        self._emit_life(Phase.INVOKE, running=True)
        try:
            await self._open()
            if self.failure is not None:  # a background task failed permanently meanwhile
                raise self.failure
            self._moved(ClientInput.USABLE)
        except BaseException as error:
            self._moved(ClientInput.FAIL)
            await self._close()
            if isinstance(error, ImpossibleStepError):  # it was stopped meanwhile
                raise self._closed() from None
            if isinstance(error, RocketMQError):
                self._emit_life(Phase.FAIL, running=True, error=error)
            raise
        self._opened()
        self._emit_life(Phase.OK, running=True)
        logger.info(
            "client %s started at %s: %s",
            self.client_id,
            self.access,
            self.description(),
            extra=self.log_fields(),
        )

    async def stop(self) -> None:
        """Terminate the session on the servers and close everything, within `timeouts.stop`; no effect if it has
        stopped.

        Cancelled, it closes without waiting for servers."""
        if self._state in (ClientState.NEW, ClientState.STOPPED, ClientState.STOPPING):
            if self._state is ClientState.NEW:
                self._moved(ClientInput.STOP)
            return
        self._moved(ClientInput.STOP)
        try:
            await self._close()
        finally:
            self._moved(ClientInput.ENDED)
            self._emit_life(Phase.SINGLE, running=False)
        logger.info("client %s stopped", self.client_id, extra=self.log_fields())

    def orphan(self) -> None:
        """Mark the client as closed in a forked child process, which must not use its connections."""
        self._moved(ClientInput.FORKED)
        self._is_orphaned = True

    async def _close(self) -> None:
        limit = Limit(self.timeouts.stop)
        await uninterrupted(self._close_all(limit, asyncio.current_task()), hurry=limit.shorten)

    async def _close_all(self, limit: Limit, caller: asyncio.Task[object] | None) -> None:
        async with limit:
            await self._terminate_session()
        await self._tasks.end(spare=caller)
        await self._disconnect()
        if self._owns_network:
            await self.network.close()

    @property
    def is_running(self) -> bool:
        """Whether the client is usable."""
        return self._state is ClientState.RUNNING

    def check_running(self) -> None:
        """Raise ClosedError unless the client is usable."""
        if self._state is not ClientState.RUNNING:
            raise self._closed()

    def check_usable(self) -> None:
        """Raise ClosedError unless the client is usable, or the error that stopped it if it has failed."""
        if self.failure is not None:
            raise copy(self.failure) from self.failure.__cause__
        self.check_running()

    def fail(self, failure: RocketMQError) -> None:
        """Stop this client permanently: `check_usable` raises `failure` from now on; later failures are ignored."""
        if self.failure is None and self._state in (ClientState.STARTING, ClientState.RUNNING):
            self.failure = failure
            logger.error("client %s failed: %s", self.client_id, failure, extra=self.log_fields())
            for listener in self.on_failure:
                listener()

    def _gave_up(self, name: str, error: BaseException) -> None:
        failure = BackgroundTaskError(
            f"{name} failed {MOST_CRASHES} times in a row, the last time with {error!r}; {BackgroundTaskError.remedy}",
            endpoint=str(self.access),
            group=self.group,
        )
        failure.__cause__ = error
        self.fail(failure)

    # Facts

    def note_success(self) -> None:
        """Note that a send was stored or a receive answered."""
        self.last_success = self.environment.wall()

    def health(self) -> Health:
        """The state of the client now."""
        last = self.last_success
        return Health(
            running=self.is_running,
            connected=self.is_connected,
            settings_in_force=self.has_settings,
            last_success=None if last is None else datetime.fromtimestamp(last, UTC),
            degraded=self._tasks.degraded,
            failure=self.failure,
        )

    @property
    def environment(self) -> Environment:
        """Wall clock and chance."""
        return self.network.environment

    def log_fields(self) -> dict[str, object]:
        """The fields that every log record of this client carries."""
        return {
            "rocketmq_client": self.client_id,
            "rocketmq_group": self.group,
            "rocketmq_endpoint": str(self.access),
        }

    # Background and events

    def spawn(
        self,
        function: Callable[[*Arguments], Coroutine[Any, Any, Result]],  # what it awaits does not matter here
        *arguments: *Arguments,
        name: str,
    ) -> asyncio.Task[Result]:
        """Run `function` in a task that the session cancels at its end; exceptions are logged."""
        return self._tasks.spawn(function, *arguments, name=name)

    def supervise(
        self,
        function: Callable[[Watch, *Arguments], Coroutine[Any, Any, None]],
        *arguments: *Arguments,
        name: str,
        watch: Watch | None = None,
    ) -> asyncio.Task[None]:
        """Run `function` in a task that the session cancels at its end, and restart it if it fails; see
        `Tasks.supervise`. After too many consecutive failures the client fails."""
        return self._tasks.supervise(function, *arguments, name=name, watch=watch)

    def watch(self, name: str) -> Watch:
        """Return a health entry for a loop that runs in a task of the application."""
        return self._tasks.watch(name)

    def next_operation(self) -> str:
        """Return an operation name that is unique within the client."""
        return f"{self.next_operations(1)}"

    def next_operations(self, count: int) -> int:
        """Reserve `count` consecutive operation numbers and return the first; as text, each is an operation name."""
        first = self._operations + 1
        self._operations += count
        return first

    @contextmanager
    def observed(self, event: Event) -> Iterator[None]:
        """Emit `event` when the block begins and when it ends, with its phase; exceptions propagate."""
        if not self.emitter.is_watched:
            yield
            return
        event = replace(event, operation=self.next_operation())
        self.emitter.event(replace(event, phase=Phase.INVOKE))
        try:
            yield
        except RocketMQError as error:
            phase = Phase.INFO if error.may_have_taken_effect else Phase.FAIL
            self.emitter.event(replace(event, phase=phase, error=error))
            raise
        except BaseException:
            self.emitter.event(replace(event, phase=Phase.INFO))
            raise
        self.emitter.event(replace(event, phase=Phase.OK))

    def _emit_life(self, phase: Phase, *, running: bool, error: RocketMQError | None = None) -> None:
        if self.emitter.is_watched:
            self.emitter.event(
                ClientEvent(client=self.emitter.client, phase=phase, running=running, error=error)
            )

    def _moved(self, given: ClientInput) -> None:
        self._state = step(CLIENT_TABLE, self._state, given)

    @property
    def _is_over(self) -> bool:
        return self._state in (ClientState.STOPPING, ClientState.STOPPED)

    def _closed(self) -> ClosedError:
        when = "was closed"
        if self._state is ClientState.NEW:
            when = "is not open yet; use it inside its `async with`"
        elif self._is_orphaned:
            when = "belongs to the process that this one was forked from; open a new one here"
        return ClosedError(
            f"this {self.role.value} client {when}", endpoint=str(self.access), group=self.group
        )


def description(role: Role, wire: str, group: str | None, topics: Collection[str], limits: str) -> str:
    """Return the facts of a client as a phrase; of many topics, the first ones."""
    kind = "producer" if role is Role.PRODUCER else f"{role.value} consumer"
    of_group = "" if group is None else f" of group {group}"
    named = ", ".join(list(topics)[:TOPICS_NAMED]) or "none"
    more = len(topics) - TOPICS_NAMED
    return f"{kind}{of_group} over {wire}; topics {named}{f' and {more} more' if more > 0 else ''}; {limits}"
