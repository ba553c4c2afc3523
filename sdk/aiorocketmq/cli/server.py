"""Options of commands that connect to a server: its address, protocol and credentials."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aiorocketmq.config import Credentials, Tls
    from aiorocketmq.connection import Connection

C = TypeVar("C")
Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The address of a server, and how to connect to it: credentials and TLS."""

    endpoint: str
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
        """The credentials, None without any; a click.UsageError if only one half is given."""
        from aiorocketmq.config import Credentials

        if (self.access_key is None) != (self.secret_key is None):
            raise click.UsageError("give --access-key and --secret-key together, or neither")
        return Credentials(self.access_key, self.secret_key) if self.access_key and self.secret_key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Security):
    """How to connect to a server as a client of messages."""

    namespace: str
    address_map: tuple[str, ...]
    timeout: float

    def connection(self) -> Connection:
        """The connection; a click.UsageError if the options contradict each other."""
        from aiorocketmq.config import Timeouts
        from aiorocketmq.connection import Connection

        credentials = self.credentials()
        pairs = [pair.partition("=") for pair in self.address_map]
        if any(not sign for _, sign, _ in pairs):
            raise click.UsageError(
                "--map takes HOST:PORT=HOST:PORT: the address that the server announces, and the one to use"
            )
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

    @asynccontextmanager
    async def open(self, client: Callable[[Connection], AbstractAsyncContextManager[C]]) -> AsyncIterator[C]:
        """Open a client; its retries at the start are not logged, since the error has the last one's cause.

        A click.UsageError if an option or a value of the client is invalid."""
        from aiorocketmq.cli.progress import progress

        connection, silence = self.connection(), logging.NullHandler()
        try:
            entering = client(connection)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        logger = logging.getLogger("aiorocketmq")
        async with AsyncExitStack() as opened:
            logger.addHandler(silence)
            try:
                with progress(f"waiting for {self.endpoint}"):
                    await opened.enter_async_context(connection)
                    entered = await opened.enter_async_context(entering)
            finally:
                logger.removeHandler(silence)
            yield entered


def server_options(function: Command) -> Command:
    """Add the options; the command gets them all as one parameter `server`, a `Server`."""
    return gathering(Server, _OPTIONS, function)


def json_option(function: Command) -> Command:
    """Add `--json`, the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def gathering(kind: type[Security], options: Iterable[Callable[..., Any]], function: Command) -> Command:
    """Add `options`; the command gets their values as one parameter `server` of this kind."""
    from functools import update_wrapper

    names = [field.name for field in fields(kind)]

    def gathered(*arguments: object, **values: Any) -> object:
        server = kind(**{name: values.pop(name) for name in names})
        return function(*arguments, server=server, **values)

    wrapped = update_wrapper(gathered, function)
    for option in reversed(tuple(options)):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # it takes other keywords than the function, as decorators of click do


def security_options(endpoint: str, description: str) -> tuple[Callable[[Command], Command], ...]:
    """Return the options of `Security`, with this default of `--endpoint`."""
    return (
        click.option(
            "--endpoint",
            metavar="ADDRESS",
            default=endpoint,
            show_default=True,
            envvar="AIOROCKETMQ_ENDPOINT",
            show_envvar=True,
            help=description,
        ),
        click.option("--tls", is_flag=True, help="Use TLS, trusting the system's roots."),
        click.option("--ca", metavar="FILE", help="Use TLS, trusting the roots in this PEM file."),
        click.option("--insecure", is_flag=True, help="Use TLS and accept any certificate."),
        click.option("--access-key", envvar="AIOROCKETMQ_ACCESS_KEY", show_envvar=True),
        click.option(
            "--secret-key",
            envvar="AIOROCKETMQ_SECRET_KEY",
            show_envvar=True,
            help="Better set by the variable: arguments are visible to all users of the machine.",
        ),
    )


_OPTIONS = (
    *security_options(
        "localhost:8081", "HOST:PORT of a proxy's gRPC port, or name servers: namesrv://HOST:PORT[;...]."
    ),
    click.option("--namespace", default="", help="Prefix of topic and group."),
    click.option(
        "--map",
        "address_map",
        metavar="A=B",
        multiple=True,
        help="Use address B if the server announces A (Docker, NAT).",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.0, min_open=True),
        default=10.0,
        show_default=True,
        help="Seconds in which the server must answer at the start.",
    ),
)
