"""The control service: remote control of a broker with the operations of `FakeBroker`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from aiorocketmq_fake.core.commands.access import User
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.edge.caller import read_caller
from aiorocketmq_fake.edge.calls import Context, abort
from aiorocketmq_fake.edge.cluster import Cluster
from aiorocketmq_fake.edge.control_conversion import fill, read
from aiorocketmq_fake.edge.control_wire import messages as ctl
from aiorocketmq_fake.edge.control_wire.methods import METHODS, SERVICE
from aiorocketmq_fake.edge.faults import FaultRule
from aiorocketmq_fake.edge.node import Node
from aiorocketmq_fake.options import GroupOptions, TopicOptions

__all__ = ["BROKER_HEADER", "CODE_HEADER", "control_service"]

CODE_HEADER = "aiorocketmq-code"
BROKER_HEADER = "aiorocketmq-broker"

L = TypeVar("L", bound=Message)
# Any: each call takes the request class of its own method.
Act = Callable[[Any], Awaitable[Message]]


def control_service(broker: Cluster) -> grpc.GenericRpcHandler:
    """Return the gRPC handlers of the control service for `broker`."""
    handlers = {name: _handler(name, broker) for name in METHODS}
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


def _control(name: str, broker: Cluster, context: Context) -> Act:
    """Return the action of a call; ValueError for an unknown broker, Refusal if there are users and no administrator
    signed the call."""
    headers = context.invocation_metadata() or ()
    named = next((value for key, value in headers if key == BROKER_HEADER), None)
    meant = broker if named is None else broker.broker(str(named))
    meant.check_administrator(read_caller(headers, context.peer).signature)
    act: Act = getattr(Control(broker, meant), _snake(name))
    return act


def _handler(name: str, broker: Cluster) -> grpc.RpcMethodHandler[bytes, Message]:
    async def handle(payload: bytes, context: Context) -> Message:
        try:
            request = METHODS[name].request.FromString(payload)
        except DecodeError:
            await abort(context, "INTERNAL", f"the request of {name} is no protobuf message of its type.")
        try:
            return await _control(name, broker, context)(request)
        except Refusal as refused:
            context.set_trailing_metadata(((CODE_HEADER, str(refused.code.value)),))
            await abort(context, "FAILED_PRECONDITION", refused.message)
        except (ValueError, RuntimeError) as wrong:
            await abort(context, "INVALID_ARGUMENT", str(wrong))

    return grpc.unary_unary_rpc_method_handler(
        handle, response_serializer=METHODS[name].response.SerializeToString
    )


class Control:
    """One method for each call, named after it; ValueError and Refusal become gRPC statuses."""

    def __init__(self, cluster: Cluster, broker: Cluster | Node) -> None:
        self._cluster = cluster
        self._broker = broker
        self._meant = (broker,) if isinstance(broker, Node) else cluster.brokers

    async def describe(self, request: ctl.Empty) -> ctl.Description:
        """Return version, profile, endpoint and clock."""
        broker = self._broker
        return ctl.Description(
            version=version("aiorocketmq"),
            profile=broker.profile.name,
            endpoint=broker.endpoint,
            tls=broker.tls is not None,
            manual_clock=broker.clock.is_manual,
            now=broker.clock.now(),
            running=broker.is_running,
            process_id=os.getpid(),
        )

    async def restart(self, request: ctl.Empty) -> ctl.Empty:
        """Restart the broker, or each one in turn."""
        for broker in self._meant:
            await broker.restart()
        return ctl.Empty()

    async def stop(self, request: ctl.Empty) -> ctl.Empty:
        """Stop the broker, or all of them."""
        for broker in self._meant:
            await broker.stop()
        return ctl.Empty()

    async def start(self, request: ctl.Empty) -> ctl.Empty:
        """Start the broker, or all of them."""
        for broker in self._meant:
            await broker.start()
        return ctl.Empty()

    async def crash(self, request: ctl.Empty) -> ctl.Empty:
        """Crash the broker, or all of them."""
        for broker in self._meant:
            await broker.crash()
        return ctl.Empty()

    async def partition(self, request: ctl.Empty) -> ctl.Empty:
        """Cut the broker off, or all of them."""
        for broker in self._meant:
            broker.partition()
        return ctl.Empty()

    async def heal(self, request: ctl.Empty) -> ctl.Empty:
        """End a partition."""
        for broker in self._meant:
            broker.heal()
        return ctl.Empty()

    async def pause(self, request: ctl.Empty) -> ctl.Empty:
        """Pause the broker, or all of them."""
        for broker in self._meant:
            broker.pause()
        return ctl.Empty()

    async def resume(self, request: ctl.Empty) -> ctl.Empty:
        """End a pause."""
        for broker in self._meant:
            broker.resume()
        return ctl.Empty()

    async def list_brokers(self, request: ctl.Empty) -> ctl.Brokers:
        """List the brokers of the cluster."""
        return ctl.Brokers(
            items=[
                ctl.BrokerState(
                    name=broker.name,
                    endpoint=broker.endpoint,
                    is_running=broker.is_running,
                    is_partitioned=broker.is_partitioned,
                    is_paused=broker.is_paused,
                )
                for broker in self._cluster.brokers
            ]
        )

    async def create_topic(self, request: ctl.Topic) -> ctl.Empty:
        """Create a topic."""
        await self._broker.create_topic(request.name, exist_ok=request.exist_ok, **_topic(request))
        return ctl.Empty()

    async def update_topic(self, request: ctl.Topic) -> ctl.Empty:
        """Replace a topic's settings."""
        await self._broker.update_topic(request.name, **_topic(request))
        return ctl.Empty()

    async def delete_topic(self, request: ctl.Name) -> ctl.Empty:
        """Delete a topic."""
        await self._broker.delete_topic(request.name)
        return ctl.Empty()

    async def list_topics(self, request: ctl.Empty) -> ctl.Topics:
        """List all topics."""
        return _list(ctl.Topics(), self._broker.topics())

    async def list_lite_topics(self, request: ctl.Name) -> ctl.LiteTopics:
        """List the lite topics below a parent."""
        lite_topics = self._broker.lite_topics(request.name)
        return ctl.LiteTopics(
            items=[ctl.LiteTopic(name=name, messages=count) for name, count in lite_topics.items()]
        )

    async def create_group(self, request: ctl.Group) -> ctl.Empty:
        """Create a consumer group."""
        await self._broker.create_group(request.name, exist_ok=request.exist_ok, **_group(request))
        return ctl.Empty()

    async def update_group(self, request: ctl.Group) -> ctl.Empty:
        """Replace a group's settings."""
        await self._broker.update_group(request.name, **_group(request))
        return ctl.Empty()

    async def delete_group(self, request: ctl.Name) -> ctl.Empty:
        """Delete a consumer group."""
        await self._broker.delete_group(request.name)
        return ctl.Empty()

    async def list_groups(self, request: ctl.Empty) -> ctl.Groups:
        """List all consumer groups."""
        return _list(ctl.Groups(), self._broker.groups())

    async def reset_offset(self, request: ctl.Reset) -> ctl.Offsets:
        """Reset the offsets of a group in a topic."""
        match request.to:
            case "beginning" | "end" as place:
                offsets = await self._broker.reset_offset(request.group, request.topic, to=place)
            case "time":
                moment = _moment(request.time)
                offsets = await self._broker.reset_offset(request.group, request.topic, to=moment)
            case other:
                raise ValueError(f"to must be beginning, end or time; got {other!r}")
        return ctl.Offsets(items=offsets)

    async def set_retention(self, request: ctl.Retention) -> ctl.Retention:
        """Set or return retention and simulated disk usage."""
        retention = request.retention if request.HasField("retention") else None
        disk_used = request.disk_used if request.HasField("disk_used") else None
        settings = await self._broker.set_retention(retention=retention, disk_used=disk_used)
        return ctl.Retention(
            retention=settings.retention, disk_used=settings.disk_used, stage=settings.stage.name
        )

    async def delete_expired(self, request: ctl.Empty) -> ctl.Count:
        """Delete expired messages."""
        return ctl.Count(count=await self._broker.delete_expired())

    async def put_user(self, request: ctl.User) -> ctl.Empty:
        """Add or replace a user."""
        user = read(User, request)
        self._keep_an_administrator(user.access_key, user)
        await self._broker.put_user(user)
        return ctl.Empty()

    async def remove_user(self, request: ctl.Name) -> ctl.Empty:
        """Remove a user."""
        self._keep_an_administrator(request.name)
        await self._broker.remove_user(request.name)
        return ctl.Empty()

    def _keep_an_administrator(self, access_key: str, *instead: User) -> None:
        """Raise ValueError if no administrator is left with `instead` in place of the user with that key."""
        users = [user for user in self._broker.users() if user.access_key != access_key]
        if not any(user.is_administrator for user in (*users, *instead)):
            raise ValueError(
                "no administrator would be left, who could use the control service: "
                "first put a user with all rights (one without publish, subscribe and groups)."
            )

    async def list_users(self, request: ctl.Empty) -> ctl.Users:
        """List all users without their secrets."""
        return _list(ctl.Users(), (user.without_secrets() for user in self._broker.users()))

    async def limit_rate(self, request: ctl.Rate) -> ctl.Empty:
        """Limit the rate of an RPC."""
        per_second = request.per_second if request.HasField("per_second") else None
        await self._broker.limit_rate(request.rpc, per_second)
        return ctl.Empty()

    async def list_rates(self, request: ctl.Empty) -> ctl.Rates:
        """List the rate limits."""
        rates = self._broker.rates().items()
        return ctl.Rates(items=[ctl.Rate(rpc=rpc, per_second=rate) for rpc, rate in rates])

    async def read_clock(self, request: ctl.Empty) -> ctl.Instant:
        """Return the broker's time."""
        clock = self._broker.clock
        return ctl.Instant(now=clock.now(), next_deadline=clock.next_deadline(), parked=clock.parked)

    async def advance_clock(self, request: ctl.Advance) -> ctl.Instant:
        """Move a manual clock."""
        await self._broker.clock.advance(
            seconds=request.seconds, patience=request.patience or None, forget_clients=request.forget_clients
        )
        return await self.read_clock(ctl.Empty())

    async def jump_clock(self, request: ctl.Advance) -> ctl.Instant:
        """Set a real clock."""
        self._broker.clock.jump(request.seconds)
        return await self.read_clock(ctl.Empty())

    async def add_fault(self, request: ctl.FaultRule) -> ctl.Fault:
        """Add a fault."""
        fault = self._broker.faults.add(read(FaultRule, request))
        return ctl.Fault(number=fault.number, rule=request, hits=fault.hits)

    async def remove_fault(self, request: ctl.FaultNumber) -> ctl.Empty:
        """Remove a fault; an unknown number is ignored."""
        self._broker.faults.remove(request.number)
        return ctl.Empty()

    async def list_faults(self, request: ctl.Empty) -> ctl.Faults:
        """List the active faults."""
        listed = ctl.Faults()
        for fault in self._broker.faults:
            item = listed.items.add(number=fault.number, hits=fault.hits)
            fill(item.rule, fault.rule)
        return listed

    async def clear_faults(self, request: ctl.Empty) -> ctl.Empty:
        """Remove all faults."""
        self._broker.faults.clear()
        return ctl.Empty()

    async def cut_streams(self, request: ctl.Cut) -> ctl.Count:
        """Break open telemetry streams."""
        client_id = request.client_id if request.HasField("client_id") else None
        return ctl.Count(count=self._broker.cut_streams(client_id, status=request.status or "UNAVAILABLE"))

    async def list_deliveries(self, request: ctl.Which) -> ctl.DeliveredMessages:
        """List past deliveries."""
        deliveries = self._broker.deliveries(_optional(request, "topic"), group=_optional(request, "group"))
        return _list(ctl.DeliveredMessages(), deliveries)

    async def list_dead_letters(self, request: ctl.Name) -> ctl.StoredMessages:
        """List the dead letters of a group."""
        return _list(ctl.StoredMessages(), self._broker.dead_letters(request.name))

    async def list_messages(self, request: ctl.Name) -> ctl.StoredMessages:
        """List the stored messages of a topic."""
        return _list(ctl.StoredMessages(), self._broker.messages(request.name))

    async def list_clients(self, request: ctl.Empty) -> ctl.Clients:
        """List the clients with stored settings."""
        return _list(ctl.Clients(), self._broker.clients())

    async def list_leases(self, request: ctl.Which) -> ctl.Leases:
        """List the messages in flight."""
        return _list(ctl.Leases(), self._broker.leases(_optional(request, "group")))

    async def list_progress(self, request: ctl.Which) -> ctl.Progresses:
        """List the progress of groups."""
        return _list(ctl.Progresses(), self._broker.progress(_optional(request, "group")))

    async def list_order_records(self, request: ctl.Which) -> ctl.OrderRecords:
        """List what blocks ordered groups."""
        return _list(ctl.OrderRecords(), self._broker.order_records(_optional(request, "group")))

    async def count_all(self, request: ctl.Empty) -> ctl.Totals:
        """Count what the broker holds."""
        totals = ctl.Totals()
        fill(totals, self._broker.totals())
        return totals

    async def command_client(self, request: ctl.ClientCommand) -> ctl.ClientReplies:
        """Send a command to a client."""
        broker, client_id = self._broker, request.client_id
        reply = None
        match request.command:
            case "print_stack_trace":
                reply = await broker.print_stack_trace(client_id)
            case "verify_message":
                reply = await broker.verify_message(client_id, request.topic, request.message_id)
            case "reconnect_endpoints":
                await broker.reconnect_endpoints(client_id)
            case other:
                raise ValueError(
                    f"command must be print_stack_trace, verify_message or reconnect_endpoints; got {other!r}"
                )
        return _list(ctl.ClientReplies(), () if reply is None else (reply,))


def _list(message: L, values: Iterable[object]) -> L:
    """Fill the `items` of a list message."""
    holder: Any = message  # every list message has its own class
    for value in values:
        fill(holder.items.add(), value)
    return message


def _optional(request: ctl.Which, name: Any) -> str | None:
    """Return an optional field; Any: its name is a literal of the stub."""
    return getattr(request, name) if request.HasField(name) else None


def _topic(request: ctl.Topic) -> TopicOptions:
    return {
        "type": request.type or "NORMAL",
        "read_queues": request.read_queues,
        "write_queues": request.write_queues,
        "permission": request.permission or "READ_WRITE",
        "lite_expiration": request.lite_expiration if request.HasField("lite_expiration") else None,
        "lite_limit": request.lite_limit,
    }


def _group(request: ctl.Group) -> GroupOptions:
    return {
        "ordered": request.ordered,
        "max_attempts": request.max_attempts or 17,
        "backoff": tuple(request.backoff),
        "consume_enabled": request.consume_enabled if request.HasField("consume_enabled") else True,
        "lite_topic": request.lite_topic,
        "lite_quota": request.lite_quota,
        "lite_exclusive": request.lite_exclusive,
    }


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError):
        raise ValueError(f"time must be Unix seconds of the years 1 to 9999, got {seconds}") from None
