"""Users of the servers and their rights; live-broker-remoting.md section 11."""

from __future__ import annotations

import json
from collections.abc import Iterable

from aiorocketmq._admin.masters import Masters
from aiorocketmq._remoting.codes import RequestCode


async def create(masters: Masters, user: str, secret: str, *, super_user: bool) -> None:
    """Create `user` on every master. Request 3001."""
    kind = "Super" if super_user else "Normal"
    body = json.dumps({"username": user, "password": secret, "userType": kind}).encode()
    await masters.on_each(RequestCode.AUTH_CREATE_USER, {"username": user}, body)


async def delete(masters: Masters, user: str) -> None:
    """Delete `user` with its rights on every master. Request 3003."""
    await masters.on_each(RequestCode.AUTH_DELETE_USER, {"username": user})


async def permit(
    masters: Masters,
    user: str,
    *,
    publish: Iterable[str],
    subscribe: Iterable[str],
    groups: Iterable[str],
) -> None:
    """Set all rights of `user`: sending to topics, receiving from topics, using groups. Request 3006."""
    entries = [
        *(_entry(f"Topic:{topic}", "Pub") for topic in publish),
        *(_entry(f"Topic:{topic}", "Sub") for topic in subscribe),
        *(_entry(f"Group:{group}", "Sub") for group in groups),
    ]
    subject = f"User:{user}"
    policies = [{"policyType": "Custom", "entries": entries}]
    body = json.dumps({"subject": subject, "policies": policies}).encode()
    await masters.on_each(RequestCode.AUTH_CREATE_ACL, {"subject": subject}, body)


def _entry(resource: str, action: str) -> dict[str, object]:
    return {"resource": resource, "actions": [action], "sourceIps": [], "decision": "Allow"}
