"""File systems of recordings: a folder of this machine, or any file system that pyarrow or fsspec knows."""

from __future__ import annotations

import os
import posixpath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from aiorocketmq.errors import UsageError


def place(folder: str | os.PathLike[str], filesystem: object | None = None) -> tuple[Any, str]:
    """Return the file system (as pyarrow's) and the path in it. Raises UsageError for an unknown scheme."""
    text = os.fspath(folder)
    if filesystem is not None:
        return _as_pyarrow(filesystem), text.rstrip("/")
    if "://" not in text:
        return fs.LocalFileSystem(), os.path.abspath(text)
    try:
        filesystem_, path = fs.FileSystem.from_uri(text)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _by_fsspec(text)
    return filesystem_, path.rstrip("/")


def name_of(folder: str | os.PathLike[str]) -> str:
    """The last part of a path or an address."""
    text = os.fspath(folder)
    return posixpath.basename(text.rstrip("/")) if "://" in text else os.path.basename(os.path.abspath(text))


def _as_pyarrow(filesystem: object) -> Any:
    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    if not hasattr(filesystem, "protocol"):
        raise UsageError(
            f"Recorder writes to file systems of pyarrow or fsspec, and {type(filesystem).__name__} is neither: "
            "give filesystem=pyarrow.fs.S3FileSystem(...), for example."
        )
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem))


def _by_fsspec(address: str) -> tuple[Any, str]:
    scheme = address.partition("://")[0]
    try:
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"pyarrow has no file system for {scheme}://: install fsspec and its package for {scheme}."
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path.rstrip("/")


def is_shared(filesystem: Any) -> bool:
    """Whether another process with the same (pyarrow's) file system writes to the same place.

    For those of fsspec that is unknown: some exist in this process only."""
    if isinstance(filesystem, fs.SubTreeFileSystem):
        return is_shared(filesystem.base_fs)
    return isinstance(filesystem, fs.FileSystem) and not isinstance(filesystem, fs.PyFileSystem)
