"""The two wires of a producer: gRPC at one address, the remoting protocol behind name servers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.remoting.bodies import heartbeat_body
from aiorocketmq._core.retries import DECLARED_ATTEMPTS
from aiorocketmq._core.settings import Declaration
from aiorocketmq._produce.grpc_calls import GrpcSendCalls
from aiorocketmq._produce.remoting_calls import RemotingSendCalls
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._session.session import Session
from aiorocketmq.config import Retry
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.hooks import Hook, Role
from aiorocketmq.wire import messages as pb

DEFAULT_GROUP = "AIOROCKETMQ_PRODUCER"
"""Name of producers without transactions at servers; Java's own default must not be shared with Java's producers."""


def grpc(
    endpoint: str | Connection,
    topics: tuple[str, ...],
    *,
    retry: Retry,
    hooks: Sequence[Hook],
    options: ConnectionOptions,
) -> GrpcSendCalls:
    """The calls over a session with a gRPC server."""

    async def on_command(endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        await calls.on_command(endpoint, command)

    session = Session(
        endpoint,
        Declaration(client_type="PRODUCER", topics=topics, attempts=retry.attempts or DECLARED_ATTEMPTS),
        role=Role.PRODUCER,
        hooks=hooks,
        commands={"recover_orphaned_transaction_command": on_command},
        options=options,
    )
    calls = GrpcSendCalls(session)
    return calls


def remoting(
    endpoint: str | Connection,
    topics: tuple[str, ...],
    *,
    group: str | None,
    hooks: Sequence[Hook],
    options: ConnectionOptions,
) -> RemotingSendCalls:
    """The calls over a session with name servers and brokers, which know it as a producer of its group."""
    named = group or DEFAULT_GROUP
    session = RemotingSession(
        endpoint,
        role=Role.PRODUCER,
        group=named,
        hooks=hooks,
        topics=topics,
        heartbeat=partial(heartbeat_body, producers=(named,)),
        options=options,
    )
    return RemotingSendCalls(session, named)
