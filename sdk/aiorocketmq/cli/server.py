"""The options of commands that speak to a server: how it is spoken to, and the connection to a proxy's gRPC port."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aiorocketmq.config import Credentials, Tls
    from aiorocketmq.connection import Connection

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a server is spoken to, and who calls."""

    tls: bool
    ca: str | None
    insecure: bool
    access_key: str | None
    secret_key: str | None

    def tls_config(self) -> Tls | None:
        """The TLS settings; None for a plain connection."""
        from aiorocketmq.config import Tls

        return Tls(ca=self.ca, insecure=self.insecure) if self.tls or self.ca or self.insecure else None

    def credentials(self) -> Credentials | None:
        """Who calls, None if nobody is named; a click.UsageError for half of it."""
        from aiorocketmq.config import Credentials

        if (self.access_key is None) != (self.secret_key is None):
            raise click.UsageError("give --access-key and --secret-key together, or neither")
        return Credentials(self.access_key, self.secret_key) if self.access_key and self.secret_key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Security):
    """Which proxy is meant, and how it is spoken to."""

    endpoint: str
    namespace: str
    address_map: tuple[str, ...]
    timeout: float

    def connection(self) -> Connection:
        """The connection; a click.UsageError where the options do not fit together."""
        from aiorocketmq.config import Timeouts
        from aiorocketmq.connection import Connection

        credentials = self.credentials()
        pairs = [pair.partition("=") for pair in self.address_map]
        if any(not sign for _, sign, _ in pairs):
            raise click.UsageError("--map takes HOST:PORT=HOST:PORT: what the server names, and what to use")
        try:
            return Connection(
                self.endpoint,
                namespace=self.namespace,
                tls=self.tls_config(),
                credentials=credentials,
                address_map={named: used for named, _, used in pairs} or None,
                timeouts=Timeouts(start=self.timeout),
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from error


def server_options(function: Command) -> Command:
    """Add the options; the command gets them all as one parameter `server`, a `Server`."""
    return gathering(Server, _OPTIONS, function)


def gathering(kind: type[Security], options: Iterable[Callable[..., Any]], function: Command) -> Command:
    """Add `options`, whose values the command gets as one parameter `server` of this kind."""
    from functools import update_wrapper

    names = [field.name for field in fields(kind)]

    def gathered(*arguments: object, **values: Any) -> object:
        server = kind(**{name: values.pop(name) for name in names})
        return function(*arguments, server=server, **values)

    wrapped = update_wrapper(gathered, function)
    for option in reversed(tuple(options)):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # it takes other keywords than the function, as decorators of click do


SECURITY_OPTIONS = (
    click.option("--tls", is_flag=True, help="Speak TLS, trusting the system's roots."),
    click.option("--ca", metavar="FILE", help="Speak TLS, trusting the roots in this PEM file."),
    click.option("--insecure", is_flag=True, help="Speak TLS and take any certificate."),
    click.option("--access-key", envvar="AIOROCKETMQ_ACCESS_KEY", show_envvar=True),
    click.option(
        "--secret-key",
        envvar="AIOROCKETMQ_SECRET_KEY",
        show_envvar=True,
        help="Better given by the variable: arguments are seen by everybody on the machine.",
    ),
)
_OPTIONS = (
    click.option(
        "--endpoint",
        metavar="HOST:PORT",
        default="localhost:8081",
        show_default=True,
        envvar="AIOROCKETMQ_ENDPOINT",
        show_envvar=True,
        help="The gRPC port of a proxy.",
    ),
    click.option("--namespace", default="", help="Put before topic and group."),
    *SECURITY_OPTIONS,
    click.option(
        "--map",
        "address_map",
        metavar="A=B",
        multiple=True,
        help="Use address B where the server names A (Docker, NAT).",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.0, min_open=True),
        default=10.0,
        show_default=True,
        help="Seconds until the server must be found.",
    ),
)
