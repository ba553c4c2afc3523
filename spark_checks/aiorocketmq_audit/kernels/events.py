"""Events of a piece of a file, column by column: texts as hashes, numbers as 64-bit integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from aiorocketmq_audit.kernels.texts import NOBODY, Hashes, hashes, mixed
from aiorocketmq_audit.recording.narrowing import AWAY, EVERYTHING, STAYING, Narrowing

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)

NONE = np.iinfo(np.int64).min
"""What stands for a number that is null."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]
    rows: int
    narrowing: Narrowing = EVERYTHING
    """What it leaves out is not read."""

    def table(self, names: Collection[str]) -> pa.Table:
        """All rows, whatever is left out otherwise, of those of these columns that the file has."""
        with parquet.ParquetFile(self.path) as file:
            there = [name for name in file.schema_arrow.names if name in names]
            return file.read_row_groups(list(self.groups), columns=there, use_threads=False)


def pieces(paths: Collection[str], rows: int, narrowing: Narrowing = EVERYTHING) -> list[Piece]:
    """Local files in pieces of up to `rows` rows, or of one row group."""
    found = []
    for path in paths:
        footer = parquet.read_metadata(path)
        groups: list[int] = []
        size = 0
        for index in range(footer.num_row_groups):
            count = footer.row_group(index).num_rows
            if groups and size + count > rows:
                found.append(Piece(path, tuple(groups), size, narrowing))
                groups, size = [], 0
            groups.append(index)
            size += count
        if groups:
            found.append(Piece(path, tuple(groups), size, narrowing))
    return found


def put(table: pa.Table, folder: str) -> None:
    """Write rows to a file of their own."""
    parquet.write_table(table, f"{folder}/{uuid4().hex}.parquet")


class Reader:
    """Reads pieces, of which those of one file mostly follow each other: of each the columns that are asked for."""

    def __init__(self) -> None:
        self._path = ""
        self._file: parquet.ParquetFile | None = None

    def read(self, piece: Piece) -> Events:
        """The events of a piece, to be looked at before the next one is read; columns that its file has not are
        null."""
        if self._file is None or piece.path != self._path:
            self._file, self._path = _opened(piece.path), piece.path
        file, groups, names = self._file, list(piece.groups), frozenset(self._file.schema_arrow.names)

        def column(name: str) -> pa.ChunkedArray | None:
            if name not in names:
                return None
            return file.read_row_groups(groups, columns=[name], use_threads=False).column(0)

        events = Events(column, sum(file.metadata.row_group(group).num_rows for group in groups))
        return events if piece.narrowing.is_everything else _narrowed(events, piece.narrowing)


def told_away(events: Events) -> Mask:
    """`narrowing.told_away`."""
    return events.one_of("kind", "receive") & events.one_of("result", AWAY)


def _narrowed(events: Events, narrowing: Narrowing) -> Events:
    """As `Narrowing.events` does it."""
    here = np.ones(len(events), np.bool_)
    away = told_away(events)
    if narrowing.groups:
        here &= ~events.known("group") | events.one_of("group", *narrowing.groups) | away
    if narrowing.from_us is not None:
        is_half = events.one_of("kind", "send") & events.known("tx_id")
        stays = events.one_of("kind", *STAYING) | is_half | away
        here &= (events.number("t_wall_us") >= narrowing.from_us) | stays
    if narrowing.to_us is not None:
        here &= events.number("t_wall_us") <= narrowing.to_us
    return events if here.all() else events.some(here)


def _opened(path: str) -> parquet.ParquetFile:
    with parquet.ParquetFile(path) as plain:
        schema, footer = plain.schema_arrow, plain.metadata
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return parquet.ParquetFile(path, metadata=footer, read_dictionary=texts)


class Events:
    """Columns by name, each read and worked out once, when it is asked for."""

    def __init__(self, column: Callable[[str], pa.ChunkedArray | None], rows: int) -> None:
        self._column, self._rows = column, rows
        self._coded: dict[str, list[tuple[pa.Array, NDArray[np.intp]]]] = {}
        self._texts: dict[tuple[str, ...], Hashes] = {}
        self._numbers: dict[str, Numbers] = {}
        self._masks: dict[tuple[str, ...], Mask] = {}

    @classmethod
    def of(cls, table: pa.Table) -> Events:
        """The events of a table."""
        names = frozenset(table.column_names)
        return cls(lambda name: table.column(name) if name in names else None, table.num_rows)

    def __len__(self) -> int:
        return self._rows

    def text(self, name: str) -> Hashes:
        """Hashes of a column of texts; NOBODY for nulls."""
        if (name,) not in self._texts:
            parts = [_spread(hashes(texts), NOBODY, codes) for texts, codes in self._codes(name)]
            self._texts[name,] = _joined(parts, len(self), NOBODY, np.uint64)
        return self._texts[name,]

    def together(self, *names: str) -> Hashes:
        """One number for several texts of each event."""
        if names not in self._texts:
            self._texts[names] = mixed(*(self.text(name) for name in names))
        return self._texts[names]

    def number(self, name: str) -> Numbers:
        """A column of numbers; NONE for nulls."""
        if name not in self._numbers:
            parts = [_filled(chunk.cast(pa.int64()), NONE) for chunk in self._chunks(name)]
            self._numbers[name] = _joined(parts, len(self), NONE, np.int64)
        return self._numbers[name]

    def known(self, name: str) -> Mask:
        """Where a text is not null."""
        return np.asarray(self.text(name) != NOBODY)

    def told(self, name: str) -> Mask:
        """Where a number is not null."""
        return np.asarray(self.number(name) != NONE)

    def called(self) -> Numbers:
        """When each event began, as far as anybody tells."""
        return np.where(self.told("invoked_us"), self.number("invoked_us"), self.number("t_wall_us"))

    def called_seq(self) -> Numbers:
        """The number by which each event began."""
        return np.where(self.told("invoked_seq"), self.number("invoked_seq"), self.number("seq"))

    def one_of(self, name: str, *values: str) -> Mask:
        """Where a text is one of these."""
        if (name, *values) not in self._masks:
            parts = [
                _spread(np.isin(texts.to_pylist(), values), False, codes)
                for texts, codes in self._codes(name)
            ]
            self._masks[name, *values] = _joined(parts, len(self), False, np.bool_)
        # Callers go on with it in place.
        return self._masks[name, *values].copy()

    def codes(self, name: str, codes: Mapping[str, int]) -> NDArray[np.uint8]:
        """What each text stands for; 0 for others."""
        parts = [
            _spread(np.array([codes.get(text, 0) for text in texts.to_pylist()], np.uint8), 0, of)
            for texts, of in self._codes(name)
        ]
        return _joined(parts, len(self), 0, np.uint8)

    def derived(self, name: str, work: Callable[[Events], Numbers]) -> Numbers:
        """What `work` makes of the events, kept by this name."""
        if name not in self._numbers:
            self._numbers[name] = work(self)
        return self._numbers[name]

    def some(self, where: Mask) -> Events:
        """These events alone."""
        which = np.flatnonzero(where)
        return _Some(self, which) if len(which) else _None(self)

    def of_all(self, where: Mask) -> Mask:
        """The same choice among all events of the piece."""
        return where

    def vocabulary(self, name: str) -> dict[int, str | None]:
        """The texts of a column that has few, by their hashes."""
        found: dict[int, str | None] = {NOBODY: None}
        for texts, _ in self._codes(name):
            found |= zip(hashes(texts).tolist(), texts.to_pylist(), strict=True)
        return found

    def plain(self, name: str, rows: NDArray[np.intp]) -> list[Any]:
        """A few rows of any column, as Python has them."""
        column = self._column(name)
        if column is None:
            return [None] * len(rows)
        found: list[Any] = column.take(pa.array(rows)).to_pylist()
        return found

    def rows(self, names: Sequence[str], which: NDArray[np.intp]) -> list[dict[str, Any]]:
        """A few rows of these columns, as Python has them."""
        columns = (self.plain(name, which) for name in names)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _chunks(self, name: str) -> Iterator[pa.Array]:
        column = self._column(name)
        if column is not None:
            yield from column.chunks

    def _codes(self, name: str) -> list[tuple[pa.Array, NDArray[np.intp]]]:
        """The texts of each chunk, and which of them each row has; one more than there are for nulls."""
        if name not in self._coded:
            self._coded[name] = []
            for chunk in self._chunks(name):
                coded = (
                    chunk
                    if pa.types.is_dictionary(chunk.type)
                    else chunk.cast(pa.string()).dictionary_encode()
                )
                codes = _filled(coded.indices, len(coded.dictionary))
                # As numpy looks things up: it takes three times as long by narrower numbers.
                self._coded[name].append((coded.dictionary, codes.astype(np.intp)))
        return self._coded[name]


class _Some(Events):
    """Some of other events: what is worked out of those is not worked out again."""

    def __init__(self, of: Events, which: NDArray[np.intp]) -> None:
        super().__init__(of._column, len(which))
        self._of, self._which = of, which

    def text(self, name: str) -> Hashes:
        if (name,) not in self._texts:
            self._texts[name,] = self._of.text(name)[self._which]
        return self._texts[name,]

    def together(self, *names: str) -> Hashes:
        if names not in self._texts:
            self._texts[names] = self._of.together(*names)[self._which]
        return self._texts[names]

    def number(self, name: str) -> Numbers:
        if name not in self._numbers:
            self._numbers[name] = self._of.number(name)[self._which]
        return self._numbers[name]

    def one_of(self, name: str, *values: str) -> Mask:
        return self._of.one_of(name, *values)[self._which]

    def codes(self, name: str, codes: Mapping[str, int]) -> NDArray[np.uint8]:
        return self._of.codes(name, codes)[self._which]

    def derived(self, name: str, work: Callable[[Events], Numbers]) -> Numbers:
        if name not in self._numbers:
            self._numbers[name] = self._of.derived(name, work)[self._which]
        return self._numbers[name]

    def of_all(self, where: Mask) -> Mask:
        whole = np.zeros(len(self._of), np.bool_)
        whole[self._which] = where
        return self._of.of_all(whole)

    def vocabulary(self, name: str) -> dict[int, str | None]:
        return self._of.vocabulary(name)

    def plain(self, name: str, rows: NDArray[np.intp]) -> list[Any]:
        return self._of.plain(name, self._which[rows])


class _None(Events):
    """None of other events: nothing need be read for that."""

    def __init__(self, of: Events) -> None:
        super().__init__(lambda _: None, 0)
        self._of = of

    def of_all(self, where: Mask) -> Mask:
        del where
        return self._of.of_all(np.zeros(len(self._of), np.bool_))


def _filled(values: pa.Array, missing: int) -> NDArray[Any]:
    """Numbers with `missing` for those that are null: in a quarter of the time that Arrow takes for it."""
    valid, content = values.buffers()
    kind = np.dtype(values.type.to_pandas_dtype())
    numbers = np.frombuffer(content, kind, len(values), values.offset * kind.itemsize)
    if not values.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
    return np.where(bits[values.offset : values.offset + len(values)], numbers, kind.type(missing))


def _spread(values: NDArray[T], missing: object, codes: NDArray[np.intp]) -> NDArray[T]:
    """The value for each code, and `missing` for the one beyond them."""
    found: NDArray[T] = np.append(values, np.array([missing], values.dtype)).take(codes, mode="clip")
    return found


def _joined(parts: list[NDArray[T]], rows: int, missing: object, kind: type[T]) -> NDArray[T]:
    if not parts:
        return np.full(rows, missing, kind)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
