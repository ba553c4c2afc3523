"""aiorocketmq_fake: a RocketMQ broker for tests, in a pip install.

Names are imported when they are first used: the command line's help must not wait for gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiorocketmq_fake.broker import FakeBroker
    from aiorocketmq_fake.client import FakeBrokerClient
    from aiorocketmq_fake.core.access import User
    from aiorocketmq_fake.core.codes import Code, Refusal
    from aiorocketmq_fake.core.profile import Profile
    from aiorocketmq_fake.core.profiles import APACHE_5_5, APACHE_5_5_CLUSTER, DOCUMENTED, PROFILES
    from aiorocketmq_fake.edge.events import EventsLostError, EventStream
    from aiorocketmq_fake.edge.faults import Disturbance, Fault, FaultRule
    from aiorocketmq_fake.edge.telemetry import ClientReply
    from aiorocketmq_fake.edge.tls import ServerTls
    from aiorocketmq_fake.views import (
        Client,
        DeliveredMessage,
        Group,
        HalfMessage,
        Lease,
        Message,
        Progress,
        Topic,
    )

_HOMES = {
    "aiorocketmq_fake.broker": ("FakeBroker",),
    "aiorocketmq_fake.client": ("FakeBrokerClient",),
    "aiorocketmq_fake.core.access": ("User",),
    "aiorocketmq_fake.core.codes": ("Code", "Refusal"),
    "aiorocketmq_fake.core.profile": ("Profile",),
    "aiorocketmq_fake.core.profiles": ("APACHE_5_5", "APACHE_5_5_CLUSTER", "DOCUMENTED", "PROFILES"),
    "aiorocketmq_fake.edge.events": ("EventStream", "EventsLostError"),
    "aiorocketmq_fake.edge.faults": ("Disturbance", "Fault", "FaultRule"),
    "aiorocketmq_fake.edge.telemetry": ("ClientReply",),
    "aiorocketmq_fake.edge.tls": ("ServerTls",),
    "aiorocketmq_fake.views": (
        "Client",
        "DeliveredMessage",
        "Group",
        "HalfMessage",
        "Lease",
        "Message",
        "Progress",
        "Topic",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "APACHE_5_5",
    "APACHE_5_5_CLUSTER",
    "DOCUMENTED",
    "PROFILES",
    "Client",
    "ClientReply",
    "Code",
    "DeliveredMessage",
    "Disturbance",
    "EventStream",
    "EventsLostError",
    "FakeBroker",
    "FakeBrokerClient",
    "Fault",
    "FaultRule",
    "Group",
    "HalfMessage",
    "Lease",
    "Message",
    "Profile",
    "Progress",
    "Refusal",
    "ServerTls",
    "Topic",
    "User",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
