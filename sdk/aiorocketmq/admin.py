"""Administration of topics, consumer groups and stored messages, over the remoting protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from aiorocketmq._admin import groups, offsets, stored, topics, users
from aiorocketmq._admin.masters import Masters, parse_servers
from aiorocketmq._admin.values import (
    ExponentialBackoff,
    GroupMember,
    GroupSettings,
    ProducerClient,
    QueueProgress,
    QueueRange,
    QueueSpan,
    TopicDescription,
    TopicRoute,
    TopicSettings,
    TopicType,
)
from aiorocketmq._core.names import check_group, check_topic
from aiorocketmq._remoting.connection import CONNECT_TIMEOUT
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._transport.trust import ssl_context
from aiorocketmq.config import Credentials, Tls
from aiorocketmq.errors import ClosedError, NotFoundError, TopicNotFoundError, UsageError
from aiorocketmq.message import MessageQueue, ReceivedMessage

if TYPE_CHECKING:
    from aiorocketmq.redrive import DeadLetterFilter, Redriven

__all__ = [
    "Admin",
    "ExponentialBackoff",
    "GroupMember",
    "GroupSettings",
    "ProducerClient",
    "QueueProgress",
    "QueueRange",
    "QueueSpan",
    "TopicDescription",
    "TopicRoute",
    "TopicSettings",
    "TopicType",
]


class Admin:
    """Creates, describes, changes and deletes topics and consumer groups; use it inside `async with`.

    `endpoint` is `"namesrv://host:port"` (several with `;`: the first that answers is used), or `"broker://host:port"`
    (several with `;`) for the masters themselves: only `route` and `topics` need name servers.
    Every request must be answered within `timeout` seconds (above 0); a call makes a few on each server. `credentials`
    sign every request, for servers that authenticate; `tls` is for servers that speak TLS. Raises ValueError for a
    malformed address or timeout. Entering raises UnreachableError if no server answers.

    Before anything is sent, calls raise ValueError for malformed names and values. Afterwards they raise
    TopicNotFoundError and GroupNotFoundError for unknown names, PermissionDeniedError and other kinds of RefusedError
    if a server refuses, MalformedAnswerError for an answer that cannot be decoded, UnreachableError if a server cannot
    be reached or does not answer in time, and ClosedError outside of `async with`.

    A call that changes something does so on one server after the other: after an error, or if it is cancelled, some
    servers may have the change and others not. They may be repeated; `create_user`
    then raises RefusedError where the user exists already.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout: float = 5.0,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._addresses, self._through_namesrv = parse_servers(endpoint)
        if not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._timeout = timeout
        self._credentials = credentials
        self._tls = tls
        self._pool: Pool | None = None

    async def __aenter__(self) -> Self:
        tls = self._tls
        self._pool = Pool(
            credentials=self._current_credentials,
            connect_timeout=min(self._timeout, CONNECT_TIMEOUT),
            ssl=None if tls is None else await asyncio.to_thread(ssl_context, tls),
            server_name=None if tls is None else tls.server_name,
        )
        try:
            await self._masters.connect()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def create_topic(
        self,
        topic: str,
        *,
        type: TopicType | str = TopicType.NORMAL,  # noqa: A002  the protocol's own word
        queues: int = 8,
        readable: bool = True,
        writable: bool = True,
        lite_expiration: float | None = None,
    ) -> None:
        """Create `topic` with `queues` queues (at least 1) on every master, or replace its settings.

        `type` is a TopicType or its name, such as `"FIFO"`; servers before 5.0 ignore it. Returns when name
        servers have a route to it. Proxies that were asked for the topic before it existed may
        report it as unknown for up to 20 s more. Lite topics of a topic of type LITE expire `lite_expiration` seconds
        (whole minutes) after their last message; by default never. Raises RefusedError if a server refuses the name or
        the type.
        """
        check_topic(topic)
        _check_queues(queues)
        if lite_expiration is not None and (lite_expiration < 60 or lite_expiration % 60):
            raise ValueError(
                f"lite_expiration must be whole minutes in seconds, such as 300, got {lite_expiration!r}"
            )
        await topics.create(
            self._masters,
            topic,
            kind=_topic_type(type),
            queues=queues,
            readable=readable,
            writable=writable,
            lite_expiration=lite_expiration,
        )

    async def alter_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        readable: bool | None = None,
        writable: bool | None = None,
    ) -> None:
        """Change the given settings of `topic` on every master that has it, and no others.

        Returns when the route shows the change. With fewer `queues` (at least 1), messages in the queues above are kept
        but no longer read. The type of a topic cannot change. Raises TopicNotFoundError if no master has it, and
        ValueError if no setting is given.
        """
        check_topic(topic)
        if queues is not None:
            _check_queues(queues)
        if queues is readable is writable is None:
            raise ValueError("alter_topic changes nothing: give queues, readable or writable")
        await topics.alter(self._masters, topic, queues=queues, readable=readable, writable=writable)

    async def describe_topic(self, topic: str) -> TopicDescription:
        """Return the settings of `topic` on each broker, and the offsets and store times of its queues.

        Raises TopicNotFoundError if no master has it."""
        check_topic(topic)
        return await topics.describe(self._masters, topic)

    async def spans(self, topic: str) -> tuple[QueueSpan, ...]:
        """Return the range of offsets and the store times of each queue of `topic`, sorted by queue.

        Raises TopicNotFoundError if no master has it."""
        check_topic(topic)
        return await topics.spans(self._masters, topic)

    async def delete_topic(self, topic: str) -> None:
        """Delete `topic` with its messages from every master and name server; an unknown topic is no error.

        Offsets that groups have committed in it are kept by the servers."""
        check_topic(topic)
        await topics.delete(self._masters, topic)

    async def route(self, topic: str) -> TopicRoute:
        """Return the brokers and queues of `topic` as the name server knows them.

        Raises TopicNotFoundError, and ValueError if the endpoint names masters (`broker://`)."""
        check_topic(topic)
        return await topics.route(self._masters, topic)

    async def topics(self) -> tuple[str, ...]:
        """Return the names of all topics that the name server knows, sorted; system topics are included.

        Raises ValueError if the endpoint names masters (`broker://`)."""
        return await topics.names(self._masters)

    async def create_group(
        self,
        group: str,
        *,
        ordered: bool = False,
        max_attempts: int = 17,
        backoff: Sequence[float] | ExponentialBackoff | None = None,
        consume_enabled: bool = True,
        lite_topic: str = "",
        lite_quota: int = 0,
        lite_exclusive: bool = False,
    ) -> None:
        """Create the consumer group `group` on every master, or replace all settings of one that exists.

        `ordered` delivers the messages of one message group in order (servers from 5.0 on). `max_attempts` (at least 1)
        counts the first delivery; then a message becomes a dead letter. `backoff` is the seconds before each
        redelivery, the last one repeating, or a formula; by default servers use their own list, and servers before 5.0
        always do. A group that is not `consume_enabled` gets no messages. `lite_topic` binds the group to the lite
        topics of that topic (5.5 and later): each client may subscribe to `lite_quota` of them (0: the server's own
        limit), and each has one subscriber at a time if `lite_exclusive`.
        """
        check_group(group)
        settings = groups.settings_body(
            group,
            ordered=ordered,
            max_attempts=max_attempts,
            backoff=backoff,
            consume_enabled=consume_enabled,
        )
        if lite_topic:
            settings["attributes"] = {**groups.lite_attributes(lite_topic, lite_quota, lite_exclusive)}
        await groups.create(self._masters, group, settings)

    async def alter_group(
        self,
        group: str,
        *,
        ordered: bool | None = None,
        max_attempts: int | None = None,
        backoff: Sequence[float] | ExponentialBackoff | None = None,
        consume_enabled: bool | None = None,
    ) -> None:
        """Change the given settings of `group` on every master that has it, and no others; see `create_group`.

        Concurrent changes by others may be lost, since servers only replace all settings at once. Raises
        GroupNotFoundError if no master has it, and ValueError if no setting is given.
        """
        check_group(group)
        settings = groups.settings_body(
            group,
            ordered=ordered,
            max_attempts=max_attempts,
            backoff=backoff,
            consume_enabled=consume_enabled,
        )
        if len(settings) == 1:
            raise ValueError(
                "alter_group changes nothing: give ordered, max_attempts, backoff or consume_enabled"
            )
        await groups.alter(self._masters, group, settings)

    async def describe_group(self, group: str) -> tuple[GroupSettings, ...]:
        """Return the settings of `group`, one for each master that has it; raises GroupNotFoundError if none does."""
        check_group(group)
        return await groups.describe(self._masters, group)

    async def delete_group(self, group: str) -> None:
        """Delete the consumer group `group` with its offsets from every master; an unknown group is no error.

        Servers that create groups on demand create it again as soon as a consumer receives for it.
        """
        check_group(group)
        await groups.delete(self._masters, group)

    async def groups(self) -> tuple[str, ...]:
        """Return the names of all consumer groups that any master has settings for; system groups are included."""
        return await groups.names(self._masters)

    async def clients(self, group: str) -> tuple[GroupMember, ...]:
        """Return the consumers of `group` that are connected to each master; empty if there are none.

        An unknown group is no error. Consumers behind a proxy in cluster mode are known to that proxy only."""
        check_group(group)
        return await groups.members(self._masters, group)

    async def producers(self, group: str) -> tuple[ProducerClient, ...]:
        """Return the producers of the producer group `group` that are connected to each master; empty if none are.

        Producers at gRPC addresses have no group: proxies register them under the name of each of their topics."""
        check_group(group)
        return await groups.producers(self._masters, group)

    async def progress(self, group: str, topic: str | None = None) -> tuple[QueueProgress, ...]:
        """Return committed offset and lag of `group` in each queue of `topic`, by default of all topics it consumed.

        Sorted by queue. Every connected member is asked which queues it owns, for up to a second; members at gRPC
        addresses own none. Raises TopicNotFoundError for an unknown `topic`; a group without progress has offset 0."""
        check_group(group)
        if topic is not None:
            check_topic(topic)
        return await offsets.progress(self._masters, group, topic)

    async def reset_offset(
        self,
        group: str,
        topic: str,
        *,
        to: datetime | Literal["beginning", "end"] | Mapping[MessageQueue, int],
        force: bool = True,
    ) -> dict[MessageQueue, int]:
        """Move the committed offsets of `group` in the queues of `topic`; return the new offsets of the moved queues.

        `to` is an end, an aware datetime (the first message stored at or after it; 4.x servers choose the nearest one),
        or offsets by queue, each within the queue's span. Without `force`, queues are only moved back, never forward.
        After an error or a cancellation, some queues may have been moved.

        Servers from 5.2 on move them at once, also while members are connected, whose messages in flight may be
        redelivered as well. Older servers notify the members, which takes effect after some 10 s and in Java's push
        consumers only; they refuse offsets by queue while members are connected (NotSupportedError), and groups that
        have committed nothing (ServerError).
        """
        check_group(group)
        check_topic(topic)
        offsets.check_target(to)
        return await offsets.reset(self._masters, group, topic, to, force=force)

    async def message(self, topic: str, message_id: str) -> ReceivedMessage:
        """Return the message of `topic` with this id: the sender's message id, or the offset message id of its broker.

        If it was stored several times, the oldest copy. Servers index messages a moment after they stored them. The
        message has no lease: it cannot be acknowledged. Raises NotFoundError, and ValueError for an empty id."""
        check_topic(topic)
        if not message_id:
            raise ValueError("message_id must not be empty")
        return await stored.by_id(self._masters, topic, message_id)

    async def messages(
        self,
        topic: str,
        *,
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 32,
    ) -> tuple[ReceivedMessage, ...]:
        """Return the oldest messages of `topic`, at most `limit` (at least 1), stored from `since` to `until`.

        Both are aware datetimes, by default unbounded. With `key`, only messages with that key; each broker finds at
        most the newest 64 of them. Without it, up to `limit` messages of each queue are read. No group's offsets
        change, and the messages have no lease. Raises TopicNotFoundError."""
        check_topic(topic)
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        stored.check_times(since, until)
        if key is None:
            return await stored.by_time(self._masters, topic, since, until, limit)
        if not key or key.split() != [key]:
            raise ValueError(f"key {key!r} must not be empty or contain white space")
        return await stored.by_key(self._masters, topic, key, since, until, limit)

    async def redrive(
        self,
        group: str,
        *,
        to: str | None = None,
        chosen: DeadLetterFilter | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        on_progress: Callable[[Redriven], object] | None = None,
    ) -> Redriven:
        """Send the dead letters of `group` back to the topics that they came from, or all to topic `to`.

        Every group of such a topic gets them again. Body, tag, keys, properties, message group, priority and message id
        stay; delays do not. The dead-letter topic keeps its copies, and the offsets of a consumer group `redrive-GROUP`
        say how far it was done: another call goes on there, and sends nothing twice. Only what is there at the
        beginning is sent, so that messages which fail again do not go in circles. `chosen` leaves out others; each
        filter has a progress of its own. `limit` bounds how many are sent. `dry_run` sends and stores nothing.
        `on_progress` is called after each batch of at most 64.

        Raises NotFoundError if the group has no dead letters, UsageError at `broker://` addresses, or for a dead letter
        whose origin is unknown, and what sending raises. After an error or a cancellation, the next call begins with
        the batch that was not finished: its messages may be stored twice, under the same ids."""
        check_group(group)
        if to is not None:
            check_topic(to)
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit!r}")
        if not self._through_namesrv:
            raise UsageError(
                "a redrive needs routes: give the address of a name server, namesrv://host:9876", group=group
            )
        from aiorocketmq import redrive

        chosen = chosen or redrive.DeadLetterFilter()
        try:
            spans = await self.spans(f"%DLQ%{group}")
        except TopicNotFoundError as error:
            raise NotFoundError(
                f"group {group!r} has no dead letters: the topic %DLQ%{group} does not exist", group=group
            ) from error
        if not dry_run:
            await self.create_group(redrive.progress_group(group, chosen))
        return await redrive.redrive(
            self._endpoint,
            group,
            {span.queue: span.max_offset for span in spans if span.max_offset > span.min_offset},
            to=to,
            chosen=chosen,
            limit=limit,
            dry_run=dry_run,
            on_progress=on_progress,
            credentials=self._credentials,
            tls=self._tls,
        )

    async def create_user(self, user: str, secret: str, *, super_user: bool = False) -> None:
        """Create `user` with the password `secret` on every master; a `super_user` has all rights.

        Needs `credentials` of a super user, and servers from 5.3 on with authentication enabled. Raises RefusedError
        if the user exists, PermissionDeniedError without the right to create users.
        """
        await users.create(self._masters, user, secret, super_user=super_user)

    async def delete_user(self, user: str) -> None:
        """Delete `user` with its rights from every master; servers may accept it until their caches expire.

        Needs `credentials` of a super user."""
        await users.delete(self._masters, user)

    async def permit(
        self,
        user: str,
        *,
        publish: Sequence[str] = (),
        subscribe: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> None:
        """Grant `user` the right to send to `publish` topics, to receive from `subscribe` topics, and to use `groups`.

        `"*"` stands for all. Receiving needs the right to the topic and to the group. Needs `credentials` of a super
        user. Raises ValueError if nothing is granted, and RefusedError for an unknown user.
        """
        if not (publish or subscribe or groups):
            raise ValueError("permit needs at least one topic or group")
        await users.permit(self._masters, user, publish=publish, subscribe=subscribe, groups=groups)

    async def _close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @property
    def _masters(self) -> Masters:
        if self._pool is None:
            raise ClosedError("this Admin is not open; use it inside its `async with`")
        return Masters(
            self._pool, self._addresses, through_namesrv=self._through_namesrv, timeout=self._timeout
        )

    async def _current_credentials(self) -> Credentials | None:
        return self._credentials


def _topic_type(value: TopicType | str) -> TopicType:
    try:
        return TopicType(value)
    except ValueError:
        allowed = ", ".join(kind.value for kind in TopicType)
        raise ValueError(f"type must be one of {allowed}, got {value!r}") from None


def _check_queues(queues: int) -> None:
    if queues < 1:
        raise ValueError(f"queues must be at least 1, not {queues!r}")
