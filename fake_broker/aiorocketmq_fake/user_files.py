"""Files of users for `--users`: TOML, as other users of the machine can see command lines."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from aiorocketmq_fake.core.commands.access import User

__all__ = ["read_users"]

LISTS = frozenset({"publish", "subscribe", "groups"})
TEXTS = frozenset({"access_key", "secret", "session_token"})
EXAMPLE = '[[users]], then access_key = "app" and secret = "…"'


def read_users(path: Path) -> tuple[User, ...]:
    """Read the users of a file; ValueError if it has none, OSError if it cannot be read.

    Each `[[users]]` has `access_key` and `secret`, and may have `publish`, `subscribe`, `groups` (lists of patterns;
    absent: all), `session_token` and `enabled`.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise ValueError(f"{path} is not a TOML file ({wrong}): write {EXAMPLE}.") from wrong
    entries = content.get("users")
    if set(content) != {"users"} or not isinstance(entries, list) or not entries:
        raise ValueError(f"{path} has no users: write {EXAMPLE}.")
    return tuple(_user(path, entry) for entry in entries)


def _user(path: Path, entry: Any) -> User:
    """Read one table; Any: a value of TOML can be anything."""
    allowed = LISTS | TEXTS | {"enabled"}
    if not isinstance(entry, dict) or not {"access_key", "secret"} <= set(entry) <= allowed:
        raise ValueError(
            f"{path}: a user has access_key and secret, and may have {', '.join(sorted(allowed))}."
        )
    for name, value in entry.items():
        fits = (
            isinstance(value, list) and all(isinstance(item, str) for item in value)
            if name in LISTS
            else isinstance(value, str if name in TEXTS else bool)
        )
        if not fits:
            kind = "a list of texts" if name in LISTS else "a text" if name in TEXTS else "true or false"
            raise ValueError(f"{path}: {name} of the user {entry['access_key']!r} is not {kind}.")
    # Any: the values' types were checked above.
    fields: dict[str, Any] = {name: tuple(value) if name in LISTS else value for name, value in entry.items()}
    return User(**fields)
