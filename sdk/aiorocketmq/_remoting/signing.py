"""Signatures of the classic protocol: pure functions; remoting-protocol.md section 8."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping


def sign(
    fields: Mapping[str, str],
    body: bytes,
    *,
    access_key: str,
    secret_key: str,
    session_token: str | None = None,
) -> dict[str, str]:
    """Return `fields` with those of a signature, which covers all of them and the body; nothing may be added later."""
    signed = {**fields, "AccessKey": access_key}
    if session_token is not None:
        signed["SecurityToken"] = session_token
    content = "".join(signed[name] for name in sorted(signed)).encode() + body
    digest = hmac.digest(secret_key.encode(), content, "sha1")
    return {**signed, "Signature": base64.b64encode(digest).decode()}
