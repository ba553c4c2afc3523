from .broker import FakeBroker as FakeBroker
from .client import FakeBrokerClient as FakeBrokerClient
from .core.commands.access import User as User
from .core.values.codes import Code as Code, Refusal as Refusal
from .core.values.profile import Profile as Profile
from .core.values.profiles import (
    APACHE_5_5 as APACHE_5_5,
    APACHE_5_5_CLUSTER as APACHE_5_5_CLUSTER,
    DOCUMENTED as DOCUMENTED,
    PROFILES as PROFILES,
)
from .edge.events import EventsLostError as EventsLostError, EventStream as EventStream
from .edge.faults import Disturbance as Disturbance, Fault as Fault, FaultRule as FaultRule
from .edge.telemetry import ClientReply as ClientReply
from .edge.tls import ServerTls as ServerTls
from .views import (
    Client as Client,
    DeliveredMessage as DeliveredMessage,
    Group as Group,
    HalfMessage as HalfMessage,
    Lease as Lease,
    Message as Message,
    Progress as Progress,
    Topic as Topic,
)
