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
from aiorocketmq._pull.interface import RETRY, Wanted
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._session.session import Session
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.hooks import Hook, Role


def grpc(
    endpoint: str | Connection, wanted: Wanted, *, hooks: Sequence[Hook], options: ConnectionOptions
) -> tuple[Session, GrpcPullCalls]:
    """A session with a gRPC server, and the calls over it."""

    async def probe() -> None:
        await calls.probe()

    session = Session(
        endpoint,
        Declaration(client_type="PULL_CONSUMER", group=wanted.group, subscriptions=dict(wanted.filters)),
        role=Role.PULL,
        hooks=hooks,
        first_call=probe,
        options=options,
    )
    calls = GrpcPullCalls(session, wanted)
    return session, calls


def remoting(
    endpoint: str | Connection, wanted: Wanted, *, hooks: Sequence[Hook], options: ConnectionOptions
) -> tuple[RemotingSession, RemotingPullCalls]:
    """A session with name servers and brokers, known to these as a member of its group where topics are shared."""

    told: Mapping[str, FilterText] = {}
    told_at = 0

    def heartbeat(client_id: str) -> bytes:
        nonlocal told, told_at
        subscriptions = _subscriptions(wanted)
        if subscriptions != told:  # brokers keep the newest of each topic
            told, told_at = subscriptions, int(session.environment.wall() * 1000)
        consumer = consumer_data(
            wanted.group,
            subscriptions,
            model=CLUSTERING if wanted.broadcast is None else BROADCASTING,
            from_where=_FROM_WHERE.get(wanted.start, "CONSUME_FROM_TIMESTAMP"),
            version=told_at,
            is_handed=wanted.is_handed,
        )
        return heartbeat_body(client_id, consumers=(consumer,))

    session = RemotingSession(
        endpoint,
        role=Role.PUSH if wanted.is_handed else Role.PULL,
        group=wanted.group,
        hooks=hooks,
        topics=wanted.topics,
        heartbeat=heartbeat if wanted.topics else None,
        options=options,
    )
    if wanted.broadcast is None:
        calls = RemotingPullCalls(session, wanted)
    else:
        member = wanted.broadcast.member or f"{session.environment.host}@DEFAULT"
        file = OffsetFile(Path(wanted.broadcast.directory).expanduser(), member, wanted.group)
        calls = BroadcastPullCalls(session, wanted, file)
    session.before_joining = calls.check_members
    return session, calls


def _subscriptions(wanted: Wanted) -> Mapping[str, FilterText]:
    """What a member tells brokers that it reads: always all of it, since that replaces what they knew."""
    if not wanted.is_handed:
        return {topic: wanted.filters.get(topic, FilterText()) for topic in wanted.topics}
    retries = {} if wanted.broadcast is not None else {f"{RETRY}{wanted.group}": FilterText()}
    return {**wanted.filters, **retries}


_FROM_WHERE: Mapping[Offset | datetime, str] = {
    Offset.BEGIN: "CONSUME_FROM_FIRST_OFFSET",
    Offset.END: "CONSUME_FROM_LAST_OFFSET",
}
