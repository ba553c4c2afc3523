"""Known deviations: one file for each target, every entry with its reason and source; inventory 6.2."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path

_KEYS = {"case", "reason", "source", "first_seen", "review"}
_REQUIRED = ("case", "reason", "source")


class InvalidDeviationsError(Exception):
    """A deviation file is invalid; the text has the entry and what to do."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One case that is known to fail on one target, and is still run."""

    case: str
    """The case's full id, its parameter included."""
    reason: str
    source: str
    """Where it is documented or was measured."""
    first_seen: date | None = None
    review: date | None = None
    """From this day on the entry is refused until it is reviewed."""


def bundled(name: str, *, known: Container[str], today: date) -> Mapping[str, Deviation]:
    """Return the suite's deviations of the target `name` by case id; empty if it has no file, or no name."""
    file = files("aiorocketmq_conformance") / "known_deviations" / f"{name}.toml"
    if not file.is_file():
        return {}
    return parse(file.read_text(encoding="utf-8"), file=f"{name}.toml", known=known, today=today)


def read(path: Path, *, known: Container[str], today: date) -> Mapping[str, Deviation]:
    """Return the deviations in the file at `path` by case id; InvalidDeviationsError if it is missing or invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDeviationsError(f"deviation file {path} cannot be read: {error}") from error
    return parse(text, file=str(path), known=known, today=today)


def parse(text: str, *, file: str, known: Container[str], today: date) -> Mapping[str, Deviation]:
    """Return the deviations of a file's text by case id.

    InvalidDeviationsError if an entry has no reason or source, names a case that is not `known`, is a duplicate,
    or is past its review date: an unmaintained list hides failures.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidDeviationsError(f"{file} is not TOML: {error}") from error
    entries = document.pop("deviation", [])
    if document or not isinstance(entries, list):
        raise InvalidDeviationsError(f"{file} must contain [[deviation]] tables only")
    deviations: dict[str, Deviation] = {}
    for entry in entries:
        deviation = _deviation(entry, file, today)
        if deviation.case in deviations:
            raise InvalidDeviationsError(f"{file} names {deviation.case} twice: keep one entry")
        if deviation.case not in known:
            raise InvalidDeviationsError(
                f"{file} names {deviation.case}, which is not a case: remove the entry"
            )
        deviations[deviation.case] = deviation
    return deviations


def _deviation(entry: object, file: str, today: date) -> Deviation:
    if not isinstance(entry, dict):
        raise InvalidDeviationsError(f"{file} must contain [[deviation]] tables only")
    name = entry.get("case", "an entry")
    for key in _REQUIRED:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise InvalidDeviationsError(f"{file}: {name} has no {key}; every deviation needs one")
    unknown = _sorted(entry.keys() - _KEYS)
    if unknown:
        raise InvalidDeviationsError(f"{file}: {name} has unknown keys {unknown}")
    for key in ("first_seen", "review"):
        if key in entry and type(entry[key]) is not date:
            raise InvalidDeviationsError(
                f"{file}: {key} of {name} must be a date such as 2026-11-21, without quotes"
            )
    deviation = Deviation(**entry)
    if deviation.review is not None and deviation.review <= today:
        raise InvalidDeviationsError(
            f"{file}: the review of {name} was due on {deviation.review}: review it, and change the date"
        )
    return deviation


def _sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
