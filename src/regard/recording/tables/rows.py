"""A table that is made part by part, and the files that it is written to."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import MissingError, UserError
from regard.pictures.atomic import write_whole

VERSION = 1
"""Of the schema: columns may be added under the same number, never changed or taken away."""
SUFFIXES = (".csv", ".npy", ".npz", ".parquet")
"""Every suffix that ``Table.save`` takes."""

Part = dict[str, NDArray[Any]]
"""Rows, as one array a column."""


@dataclass(frozen=True)
class Column:
    """One column: its name, its NumPy dtype and, for a token's text, whose it is."""

    name: str
    dtype: str
    """``int32``, ``float32`` or ``str``."""
    token_of: str = ""
    """The column of positions that this one spells out; its values are ``Table.tokens``'."""


@dataclass(frozen=True, repr=False)
class Table:
    """Rows that are made one layer at a time, when they are asked for.

    >>> import numpy as np
    >>> one = {"key": np.array([1], "int32"), "weight": np.array([0.5], "float32")}
    >>> columns = (Column("key", "int32"), Column("weight", "float32"))
    >>> table = Table("links", columns, (), lambda: iter([one, one]))
    >>> table.arrays()["weight"].tolist()
    [0.5, 0.5]
    """

    name: str
    columns: tuple[Column, ...]
    tokens: tuple[str, ...]
    """The text's tokens, by position; none where they are not known."""
    parts: Callable[[], Iterator[Part]]
    """The rows, a layer at a time: arrays of all columns but those of tokens."""

    def arrays(self) -> Part:
        """All rows, one array a column; a token's text stands in ``tokens``, by position."""
        held = list(self.parts())
        return {
            column.name: np.concatenate(
                [np.zeros(0, column.dtype), *(part[column.name] for part in held)]
            )
            for column in self._stored
        }

    @property
    def _stored(self) -> list[Column]:
        return [column for column in self.columns if not column.token_of]

    def save(self, path: str | Path) -> None:
        """Write the table, whole or not at all, as the suffix says.

        ``.csv``: UTF-8 with a line of names, tokens spelled out; ``.parquet`` (needs pyarrow): the
        same, a row group a layer; ``.npz``: one array a column, ``tokens`` and ``version``;
        ``.npy``: one array of records.  CSV and parquet are written a layer at a time.

        Raises:
            UserError: another suffix; a folder that is missing, write-protected or full.
            MissingError: parquet without pyarrow.
        """
        path = Path(path)
        writers: dict[str, Callable[[Table], Iterator[bytes | memoryview]]] = dict(
            zip(SUFFIXES, (_csv, _npy, _npz, _parquet), strict=True)
        )
        if (writer := writers.get(path.suffix.lower())) is None:
            raise UserError("table.unknown-format", name=path.name)
        write_whole(path, writer(self))

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {', '.join(column.name for column in self.columns)})"


def named(path: Path, tables: Sequence[str]) -> str:
    """Which of ``tables`` a file's name asks for: ``links.csv``, ``cat-heads.parquet``.

    Raises ``UserError`` where it names none.
    """
    for name in tables:
        if path.stem.lower().endswith(name):
            return name
    suffix = path.suffix
    raise UserError(
        "table.unnamed", name=path.name, names=", ".join(f"{t}{suffix}" for t in tables)
    )


def _csv(table: Table) -> Iterator[bytes]:
    def line(rows: Any) -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue().encode("utf-8", "replace")

    yield line([[column.name for column in table.columns]])
    for part in table.parts():
        yield line(zip(*(_values(table, column, part) for column in table.columns), strict=True))


def _values(table: Table, column: Column, part: Part) -> list[Any]:
    if column.token_of:
        return [table.tokens[at] for at in part[column.token_of].tolist()]
    held = part[column.name]
    if column.dtype == "float32":
        # Nine digits bring every float32 back as it was.
        return [f"{value:.9g}" for value in held.tolist()]
    return list(held.tolist())


def _npy(table: Table) -> Iterator[memoryview]:
    arrays = table.arrays()
    rows = len(next(iter(arrays.values())))
    records = np.zeros(rows, [(name, held.dtype) for name, held in arrays.items()])
    for name, held in arrays.items():
        records[name] = held
    file = io.BytesIO()
    np.save(file, records, allow_pickle=False)
    yield file.getbuffer()


def _npz(table: Table) -> Iterator[memoryview]:
    file = io.BytesIO()
    tokens = np.array(table.tokens, dtype=np.str_)
    arrays = table.arrays() | {"tokens": tokens, "version": np.array(VERSION)}
    np.savez_compressed(file, allow_pickle=False, **arrays)
    yield file.getbuffer()


def _parquet(table: Table) -> Iterator[memoryview]:
    try:
        arrow, parquet = (import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise MissingError(
            "a .parquet table needs pyarrow: pip install pyarrow, or save it as .csv or .npz"
        ) from error
    tokens = arrow.array([_written(token) for token in table.tokens], arrow.string())
    kinds = {"int32": arrow.int32(), "float32": arrow.float32(), "str": arrow.string()}
    spelled = arrow.dictionary(arrow.int32(), arrow.string())
    schema = arrow.schema(
        [(c.name, spelled if c.token_of else kinds[c.dtype]) for c in table.columns],
        metadata={"regard.table": table.name, "regard.version": str(VERSION)},
    )
    file = io.BytesIO()
    with parquet.ParquetWriter(file, schema) as writer:
        for part in table.parts():
            columns = [
                arrow.DictionaryArray.from_arrays(arrow.array(part[c.token_of]), tokens)
                if c.token_of
                else arrow.array(part[c.name], kinds[c.dtype])
                for c in table.columns
            ]
            writer.write_table(arrow.table(columns, schema=schema))
    yield file.getbuffer()


def _written(token: str) -> str:
    """``token`` without halves of surrogate pairs, which no encoding can write."""
    return token.encode("utf-8", "replace").decode()
