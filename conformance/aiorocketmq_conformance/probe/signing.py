"""Signed headers, as clients of a server with users send them (broker-semantics.md 1.3)."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime

SCHEME = "MQv2-HMAC-SHA1"


def signed(access_key: str, secret: str, *, at: float, shown: float | None = None) -> dict[str, str]:
    """Return the headers of a call signed at `at` (Unix seconds); `shown` is another date than the signed one."""
    date, shown_date = _date(at), _date(at if shown is None else shown)
    signature = hmac.digest(secret.encode(), date.encode(), "sha1").hex().upper()
    return {
        "x_mq_date_time": shown_date,
        "authorization": f"{SCHEME} Credential={access_key}, SignedHeaders=x-mq-date-time, Signature={signature}",
    }


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
