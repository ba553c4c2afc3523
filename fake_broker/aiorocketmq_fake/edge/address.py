"""Where the broker says that it can be reached."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from aiorocketmq.wire import messages as pb

from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.edge.endpoint import join

__all__ = ["Address"]

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Address:
    """The listening address, and the one in routes (R3.5)."""

    def __init__(self, host: str, port: int, *, advertised: str | None = None) -> None:
        self.host = host
        """The host to listen on."""
        self.port = port
        """0 until the port is bound."""
        self._advertised = advertised

    @property
    def follows_clients(self) -> bool:
        """Whether only a client knows by which host it reaches the broker: it listens on a wildcard."""
        return self._advertised is None and self.host in _WILDCARDS

    @property
    def reachable_host(self) -> str:
        """The advertised host, else one that a client on this machine can connect to, also for a wildcard."""
        return self._advertised or _WILDCARDS.get(self.host, self.host)

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return join(self.reachable_host, self.port)

    def endpoints(self, asked: pb.Endpoints, profile: Profile) -> pb.Endpoints:
        """Return the address for routes: this one, or if that is open the one that the client used.

        A client behind a container's port mapping reaches the broker by its own address and by no other.
        """
        if asked.addresses and asked.scheme == pb.AddressScheme.ADDRESS_SCHEME_UNSPECIFIED:
            text = "the endpoints have addresses but no scheme: say IPv4, IPv6 or DOMAIN_NAME."
            raise Refusal(profile.unspecified_scheme_code, text)
        if asked.addresses and self.follows_clients:
            return asked
        scheme = {
            IPv4Address: pb.AddressScheme.IPv4,
            IPv6Address: pb.AddressScheme.IPv6,
            type(None): pb.AddressScheme.DOMAIN_NAME,
        }[type(_numeric(self.reachable_host))]
        return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=self.reachable_host, port=self.port)])


def _numeric(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
