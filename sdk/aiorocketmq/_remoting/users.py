"""Bodies of the requests about users and their rights; live-broker-remoting.md section 11."""

from __future__ import annotations

import json
from collections.abc import Iterable


def user_body(name: str, secret: str, *, super_user: bool) -> bytes:
    """A user in the form of servers from 5.3 on."""
    kind = "Super" if super_user else "Normal"
    return json.dumps({"username": name, "password": secret, "userType": kind}).encode()


def rights_body(
    name: str, *, publish: Iterable[str], subscribe: Iterable[str], groups: Iterable[str]
) -> bytes:
    """All rights of the user `name`: sending to topics, receiving from topics, using groups."""
    entries = [
        *(_entry(f"Topic:{topic}", "Pub") for topic in publish),
        *(_entry(f"Topic:{topic}", "Sub") for topic in subscribe),
        *(_entry(f"Group:{group}", "Sub") for group in groups),
    ]
    policies = [{"policyType": "Custom", "entries": entries}]
    return json.dumps({"subject": subject(name), "policies": policies}).encode()


def subject(name: str) -> str:
    """The name of a user in grants."""
    return f"User:{name}"


def _entry(resource: str, action: str) -> dict[str, object]:
    return {"resource": resource, "actions": [action], "sourceIps": [], "decision": "Allow"}
