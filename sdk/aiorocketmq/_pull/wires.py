"""The two wires of a pull consumer: gRPC at one address, the remoting protocol behind name servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from aiorocketmq._core.offset import Offset
from aiorocketmq._core.remoting.bodies import BROADCASTING, CLUSTERING, consumer_data, heartbeat_body
from aiorocketmq._core.settings import Declaration, FilterText
from aiorocketmq._pull.broadcast import BroadcastPullCalls, OffsetFile
from aiorocketmq._pull.grpc_calls import GrpcPullCalls
from aiorocketmq._pull.interface import RETRY, PullSettings
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._session.session import Session
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.hooks import Hook, Role


def grpc(
    endpoint: str | Connection, settings: PullSettings, *, hooks: Sequence[Hook], options: ConnectionOptions
) -> tuple[Session, GrpcPullCalls]:
    """A session with a gRPC server, and the calls over it."""

    async def probe() -> None:
        await calls.probe()

    session = Session(
        endpoint,
        Declaration(client_type="PULL_CONSUMER", group=settings.group, subscriptions=dict(settings.filters)),
        role=Role.PULL,
        hooks=hooks,
        first_call=probe,
        options=options,
    )
    calls = GrpcPullCalls(session, settings)
    return session, calls


def remoting(
    endpoint: str | Connection, settings: PullSettings, *, hooks: Sequence[Hook], options: ConnectionOptions
) -> tuple[RemotingSession, RemotingPullCalls]:
    """A session with name servers and brokers, which know it as a member of its group if topics are shared."""

    declared: Mapping[str, FilterText] = {}
    declared_at = 0

    def heartbeat(client_id: str) -> bytes:
        nonlocal declared, declared_at
        subscriptions = _subscriptions(settings)
        if subscriptions != declared:  # brokers keep the newest of each topic
            declared, declared_at = subscriptions, int(session.environment.wall() * 1000)
        consumer = consumer_data(
            settings.group,
            subscriptions,
            model=CLUSTERING if settings.broadcast is None else BROADCASTING,
            from_where=_FROM_WHERE.get(settings.start, "CONSUME_FROM_TIMESTAMP"),
            version=declared_at,
            is_push=settings.is_push,
        )
        return heartbeat_body(client_id, consumers=(consumer,))

    session = RemotingSession(
        endpoint,
        role=Role.PUSH if settings.is_push else Role.PULL,
        group=settings.group,
        hooks=hooks,
        topics=settings.topics,
        heartbeat=heartbeat if settings.topics else None,
        options=options,
    )
    if settings.broadcast is None:
        calls = RemotingPullCalls(session, settings)
    else:
        member = settings.broadcast.member or f"{session.environment.host}@DEFAULT"
        file = OffsetFile(Path(settings.broadcast.directory).expanduser(), member, settings.group)
        calls = BroadcastPullCalls(session, settings, file)
    session.before_joining = calls.check_members
    return session, calls


def _subscriptions(settings: PullSettings) -> Mapping[str, FilterText]:
    """The subscriptions in a member's heartbeat: always all of them, since they replace what brokers know."""
    if not settings.is_push:
        return {topic: settings.filters.get(topic, FilterText()) for topic in settings.topics}
    retries = {} if settings.broadcast is not None else {f"{RETRY}{settings.group}": FilterText()}
    return {**settings.filters, **retries}


_FROM_WHERE: Mapping[Offset | datetime, str] = {
    Offset.BEGIN: "CONSUME_FROM_FIRST_OFFSET",
    Offset.END: "CONSUME_FROM_LAST_OFFSET",
}
