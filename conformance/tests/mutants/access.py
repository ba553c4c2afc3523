"""Cores that admit unauthorized users, or refuse authorized ones."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import AnySignature, Need, Right, Signature, User
from aiorocketmq_fake.core.values.codes import Code, Refusal

from conformance.tests.mutants.mutant import Mutant


class NobodyIsAsked(Broker):
    """Calls are not authenticated."""

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        return


class NobodyGetsIn(Broker):
    """Every user is refused."""

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        raise Refusal(Code.UNAUTHORIZED, "nobody gets in.")


class SignaturesUnread(Broker):
    """Only the access key is checked, not the signature."""

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        for user in self.access.users():
            if (
                isinstance(signature, Signature)
                and f"Credential={user.access_key}," in signature.authorization
            ):
                signature = _signed(user)
        super().check_access(command, client_id, signature, needs, now=now)


def _signed(user: User) -> Signature:
    signature = hmac.digest(user.secret.encode(), b"now", "sha1").hex()
    return Signature(f"X Credential={user.access_key}, Signature={signature}", "now", user.session_token)


class RightsForgotten(Broker):
    """Every user has all permissions."""

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        super().check_access(command, client_id, signature, (), now=now)


class GroupsForgotten(Broker):
    """Permissions for groups are not checked."""

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        kept = [need for need in needs if need.right is not Right.GROUP]
        super().check_access(command, client_id, signature, kept, now=now)


class RemovedUsersStay(Broker):
    """Removed users are still admitted."""

    def remove_user(self, access_key: str, *, now: float) -> None:
        return


class StreamsAreOpen(Broker):
    """Streams are not authenticated."""

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        if command != "Telemetry":
            super().check_access(command, client_id, signature, needs, now=now)


MUTANTS = (
    Mutant("mu-nobody-is-asked", ("auth.missing[*]", "auth.bad-key"), core=NobodyIsAsked),
    Mutant("mu-nobody-gets-in", ("auth.good",), core=NobodyGetsIn),
    Mutant("mu-signatures-unread", ("auth.bad-signature", "auth.altered-date"), core=SignaturesUnread),
    Mutant(
        "mu-rights-forgotten",
        ("auth.send-denied", "auth.receive-denied", "auth.patterns", "auth.calls", "auth.remoting"),
        core=RightsForgotten,
    ),
    Mutant("mu-groups-forgotten", ("auth.group-denied", "auth.ack-denied"), core=GroupsForgotten),
    Mutant("mu-removed-users-stay", ("auth.revoked",), core=RemovedUsersStay),
    Mutant("mu-streams-are-open", ("auth.telemetry",), core=StreamsAreOpen),
)
