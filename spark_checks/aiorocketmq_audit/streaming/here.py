"""The files that a batch looks at, by the names that they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Here:
    """The files that a batch looks at: what was carried, and what is new."""

    files: tuple[str, ...]
    is_odd: bool
    """Some rows occur twice."""

    @classmethod
    def of(cls, files: Iterable[str], *, is_odd: bool = False) -> Here:
        """These files."""
        return cls(tuple(files), is_odd)

    @property
    def is_local(self) -> bool:
        """All files are on this machine, and each row occurs once."""
        return not self.is_odd and all(file.startswith("file:/") for file in self.files)

    @property
    def paths(self) -> list[str]:
        """The files as this machine names them."""
        return [f"/{file.removeprefix('file:').lstrip('/')}" for file in self.files]


def plain(uri: str) -> str:
    """The name of a file as it is: not all quote the same characters, or write as many slashes."""
    name = unquote(uri)
    return f"file:///{name.removeprefix('file:').lstrip('/')}" if name.startswith("file:") else name
