"""Caches credentials: requested rarely, once for all clients of a connection, and at once after a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiorocketmq._core.codes import Code
from aiorocketmq._core.headers import HeaderSource
from aiorocketmq.config import Credentials, CredentialsProvider
from aiorocketmq.errors import CredentialsProviderError, PermissionDeniedError

PERIOD = 60.0
"""Seconds between two looks at the credentials in use."""
FRESH = 50.0
"""Seconds for which a provider's result without an expiry is used."""
MARGIN = 90.0
"""Seconds before the expiry of temporary credentials from which on new ones are requested."""
_REFUSED_PAUSE = 5.0
"""Seconds between two requests that refusals have caused: a wrong key must not cause a storm of them."""


class CredentialSource:
    """The credentials of one connection, from a value or a provider."""

    def __init__(self, given: Credentials | CredentialsProvider | None, *, wall: Callable[[], float]) -> None:
        self._provider: CredentialsProvider | None = None
        self._current: Credentials | None = None
        if given is None or isinstance(given, Credentials):
            self._current = given
        else:
            self._provider = given
        self._wall = wall
        self._turn = asyncio.Lock()
        self._asked_at = float("-inf")

    async def now(self) -> Credentials | None:
        """Return the current credentials; raises CredentialsProviderError."""
        if self._provider is not None:
            async with self._turn:
                if self._current is None or self._is_stale(self._current):
                    await self._ask(self._provider)
        return self._current

    async def in_use(self) -> Credentials | None:
        """Return the credentials that the last request has brought, however old; None before the first one."""
        return self._current

    async def other_than(self, refused: Credentials | None) -> Credentials | None:
        """Return other credentials than those that a server has just refused, None if there are none."""
        if self._provider is None:
            return None
        async with self._turn:
            age = asyncio.get_running_loop().time() - self._asked_at
            if self._current == refused and age >= _REFUSED_PAUSE:
                await self._ask(self._provider)
            return None if self._current == refused else self._current

    async def _ask(self, provider: CredentialsProvider) -> None:
        try:
            self._current = await provider()
        except (
            Exception
        ) as error:  # of the application's code, which may call a service that is unavailable for a while
            raise CredentialsProviderError(
                f"the credentials provider failed with {error!r}; {CredentialsProviderError.remedy}"
            ) from error
        self._asked_at = asyncio.get_running_loop().time()

    def _is_stale(self, current: Credentials) -> bool:
        if current.expires_at is not None:
            return current.expires_at.timestamp() - self._wall() < MARGIN
        return asyncio.get_running_loop().time() - self._asked_at >= FRESH


@contextmanager
def as_the_provider_failed() -> Iterator[None]:
    """Raise the error of the application's credentials provider itself: at a start, nothing else has failed."""
    try:
        yield
    except CredentialsProviderError as error:
        raise error.__cause__ or error from None


class Signing:
    """The signature of one client's calls."""

    def __init__(self, source: CredentialSource) -> None:
        self._source = source
        self.current: Credentials | None = None
        """The credentials that calls are signed with; None before the first ones."""

    async def sign(self, headers: HeaderSource) -> None:
        """Use the current credentials for all later calls."""
        self._take(headers, await self._source.now())

    async def sign_anew(
        self, headers: HeaderSource, refused: PermissionDeniedError, signed_with: Credentials | None
    ) -> bool:
        """Use other credentials than those that a call was `signed_with` and refused; return whether there are any.

        They may have been replaced during the call, by another one that was refused before."""
        if refused.code not in (None, Code.UNAUTHORIZED):
            return False
        other = await self._source.other_than(signed_with)
        self._take(headers, other)
        return other is not None

    def _take(self, headers: HeaderSource, credentials: Credentials | None) -> None:
        if credentials is not None and credentials != self.current:
            self.current = credentials
            headers.sign_with(credentials.access_key, credentials.secret_key, credentials.session_token)
