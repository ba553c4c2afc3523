"""Access control: users, their signatures, and their rights to topics and groups (1.3, 14)."""

import hmac
import re
from base64 import b64encode
from calendar import timegm
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import UserChanged

_EVERYTHING = ("*",)
_PATTERN = re.compile(r"\*|[%|a-zA-Z0-9_-]+\*?")

_DATE = re.compile(r"(\d{4})(0[1-9]|1[0-2])(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII)


class Right(Enum):
    """What a call needs, of either protocol (R14.2)."""

    PUBLISH = "publish to topic"
    SUBSCRIBE = "subscribe to topic"
    ROUTE = "see topic"
    """Either of the two above is enough (R14.2, QueryRoute)."""
    GROUP = "subscribe in group"
    ADMINISTER = "administer"
    """Only users with all other rights have it and the next two, as Apache's super users do."""
    ADMINISTER_TOPIC = "administer topic"
    ADMINISTER_GROUP = "administer group"


_RESOURCES = {Right.GROUP: "Group", Right.ADMINISTER_GROUP: "Group", Right.ADMINISTER: "Cluster"}
"""The kind of resource in the text of a denial; all others are about topics."""


@dataclass(frozen=True, slots=True)
class Need:
    """One right that a call needs on one resource; nobody has a right to a blank name (R14.4)."""

    right: Right
    name: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a gRPC call: its headers, empty if absent. It covers the date alone."""

    authorization: str = ""
    date_time: str = ""
    session_token: str = ""
    source: str = ""
    """The caller's host."""


@dataclass(frozen=True, slots=True)
class FrameSignature:
    """The signature of a request of the remoting protocol, which covers all of it."""

    access_key: str = ""
    signature: str = ""
    content: bytes = field(default=b"", repr=False)
    """What is signed: the values of all other fields in the order of their names, then the body."""
    session_token: str = ""
    source: str = ""
    """The caller's host."""


AnySignature: TypeAlias = Signature | FrameSignature


@dataclass(frozen=True, slots=True)
class User:
    """A user with an access key; every call is signed with the secret.

    The patterns are names, prefixes with a star such as `orders*`, or `*` for all. ValueError for others.
    """

    access_key: str
    secret: str = field(repr=False)
    publish: tuple[str, ...] = _EVERYTHING
    """Topics to send to."""
    subscribe: tuple[str, ...] = _EVERYTHING
    """Topics to receive from."""
    groups: tuple[str, ...] = _EVERYTHING
    """Consumer groups to receive in."""
    session_token: str = field(default="", repr=False)
    """Required in every call if the profile checks it (`session_tokens_count`)."""
    enabled: bool = True
    """A disabled user is refused like an unknown one."""

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret or set(self.access_key) & set("/, ="):
            raise ValueError(
                f"a user needs a secret, and an access key without / , = or blanks; got access key {self.access_key!r}"
            )
        for pattern in (*self.publish, *self.subscribe, *self.groups):
            if not _PATTERN.fullmatch(pattern):
                raise ValueError(
                    f"a pattern must be a name, a prefix with a star, or a star; got {pattern!r}"
                )

    @property
    def may_everything(self) -> bool:
        """Whether the user has all rights, as Apache's super user has (R14.1)."""
        return self.publish == self.subscribe == self.groups == _EVERYTHING

    @property
    def is_administrator(self) -> bool:
        """Whether the user may do everything, and is not disabled."""
        return self.enabled and self.may_everything

    def without_secrets(self) -> "User":
        """Return the user without secrets."""
        return replace(self, secret="hidden", session_token="hidden" if self.session_token else "")

    def may(self, need: Need) -> bool:
        """Return whether the user has a right."""
        granted = {
            Right.PUBLISH: self.publish,
            Right.SUBSCRIBE: self.subscribe,
            Right.ROUTE: self.publish + self.subscribe,
            Right.GROUP: self.groups,
        }.get(need.right, ())
        return bool(need.name.strip()) and any(_fits(pattern, need.name) for pattern in granted)


class Access:
    """The users of one broker. Until the first one is added, calls are neither signed nor checked (R14.1)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._users: dict[str, User] = {}
        self.is_checked = False
        """Whether calls must be signed: from the first user on, also after the last one was removed."""

    def put(self, user: User) -> None:
        """Add a user, or replace the one with that access key."""
        self._users[user.access_key] = user
        self.is_checked = True
        self._state.events.append(UserChanged(self._state.at, user.access_key, deleted=False))

    def remove(self, access_key: str) -> None:
        """Remove a user. Refused with NOT_FOUND if there is none."""
        if self._users.pop(access_key, None) is None:
            raise Refusal(Code.NOT_FOUND, f"No user has the access key {access_key!r}.")
        self._state.events.append(UserChanged(self._state.at, access_key, deleted=True))

    def users(self) -> tuple[User, ...]:
        """Return all users by access key."""
        return tuple(self._users[key] for key in sorted(self._users))

    def check(self, signature: AnySignature, needs: Iterable[Need]) -> None:
        """Refuse with UNAUTHORIZED a call that is not signed by a user with all the rights it needs (R14.4)."""
        user = (
            self._signer(signature) if isinstance(signature, Signature) else self._signer_of_frame(signature)
        )
        if self._state.profile.session_tokens_count and user.session_token not in (
            "",
            signature.session_token,
        ):
            raise _denied(f"the session token is not that of {user.access_key}.")
        if user.may_everything:
            return
        for need in needs:
            if not user.may(need):
                resource = f"{_RESOURCES.get(need.right, 'Topic')}:{need.name}"
                raise _denied(
                    f"User:{user.access_key} has no permission to access {resource} from {signature.source}, "
                    "no matched policies."
                )

    def _signer(self, signature: Signature) -> User:
        """Return the user who signed a gRPC call. The date is signed text only, unless a window is set (R1.11)."""
        pieces = _read(signature.authorization)
        user = self._user(pieces.get("Credential", "").partition("/")[0])
        try:
            shown = bytes.fromhex(pieces.get("Signature", ""))
        except ValueError:
            raise _denied("the signature is not hexadecimal.") from None
        digest = hmac.digest(user.secret.encode(), signature.date_time.encode(), "sha1")
        if not signature.date_time or not hmac.compare_digest(shown, digest):
            raise _denied("check signature failed.")
        window = self._state.profile.signature_window
        if window is not None and abs(self._state.at - _instant(signature.date_time)) > window:
            raise _denied(f"the signature's date {signature.date_time} is more than {window:g} s off.")
        return user

    def _signer_of_frame(self, signature: FrameSignature) -> User:
        """Return the user who signed a request of the remoting protocol (remoting 8)."""
        user = self._user(signature.access_key)
        digest = b64encode(hmac.digest(user.secret.encode(), signature.content, "sha1"))
        if not hmac.compare_digest(signature.signature.encode(), digest):
            raise _denied("check signature failed.")
        return user

    def _user(self, access_key: str) -> User:
        """Return the user with an access key; the texts are those of servers (live-broker-remoting 11)."""
        if not access_key:
            raise _denied("username cannot be null.")
        user = self._users.get(access_key)
        if user is None:
            raise _denied(f"User:{access_key} is not found.")
        if not user.enabled:
            raise _denied(f"User:{access_key} is disabled.")
        return user


def _read(authorization: str) -> dict[str, str]:
    """Read `SCHEME key=value, key=value`; the scheme's own name is ignored (R1.10)."""
    if not authorization.strip():
        raise _denied("the header authorization is missing: sign every call.")
    pieces = (piece.strip().partition("=") for piece in authorization.partition(" ")[2].split(","))
    return {key: value for key, _, value in pieces}


def _instant(date_time: str) -> int:
    """Return the Unix seconds of `20260819T101112Z`; an invalid date of that shape gives a time far away."""
    match = _DATE.fullmatch(date_time)
    if match is None:
        raise _denied(f"the header x-mq-date-time is {date_time[:40]!r}, not like 20260819T101112Z.")
    return timegm(tuple(map(int, match.groups())))


def _denied(reason: str) -> Refusal:
    return Refusal(Code.UNAUTHORIZED, reason)


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
