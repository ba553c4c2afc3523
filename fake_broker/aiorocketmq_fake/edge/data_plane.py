"""The gRPC service of RocketMQ clients, assembled."""

from __future__ import annotations

from typing import Any

import grpc

from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.calls import unary
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.faults import Faults
from aiorocketmq_fake.edge.messaging import Messaging
from aiorocketmq_fake.edge.peers import PeerBrokers
from aiorocketmq_fake.edge.streaming import Streaming
from aiorocketmq_fake.edge.telemetry import Telemetry

__all__ = ["messaging_service"]

SERVICE = "apache.rocketmq.v2.MessagingService"


def messaging_service(
    driver: Driver, faults: Faults, telemetry: Telemetry, address: Address, peers: PeerBrokers
) -> grpc.GenericRpcHandler:
    """Return the handlers of all RPCs in the profile; gRPC answers the others UNIMPLEMENTED (R10.1)."""
    streaming = Streaming(driver, faults, address)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, Any]] = {
        "Telemetry": telemetry.handler(),
        "ReceiveMessage": streaming.receive_message(),
        "PullMessage": streaming.pull_message(),
    }
    for name, act in Messaging(driver, peers).acts().items():
        handlers[name] = unary(name, act, driver, faults)
    served = {name: handler for name, handler in handlers.items() if name in driver.core.profile.served_rpcs}
    return grpc.method_handlers_generic_handler(SERVICE, served)
