"""The file that recordings are kept in: safetensors, with a text and a checksum of every array.

Any reader of safetensors opens it.  What is regard's own stands in its metadata: ``recording``, a
JSON text that names the arrays; ``checksums``, the SHA-256 of each; and ``sha256`` of all this, so
that no byte of the file is believed unread.  Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._errors import KindError, RegardError, UserError
from regard.pictures.atomic import write_whole

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "regard.recording"
VERSION = 1
"""Of the text and its arrays; a reader refuses a later one."""
LONGEST = 100_000_000
"""Bytes that the header may have, which is safetensors' own limit."""
OPENING = b'{"__metadata__":{"checksums":'
"""How a header of ours begins, even one that is cut short."""
PIECE = 1 << 24
"""Bytes that are written together."""
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""safetensors' names of torch's dtypes."""
CODES = {name: code for code, name in DTYPES.items()}


def raw(tensor: Tensor) -> Any:
    """Its numbers as bytes; copied only where they lie elsewhere, or in another order."""
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def write(path: Path, text: Any, tensors: Mapping[str, Tensor]) -> None:
    """Writes ``text`` (what JSON can say) and ``tensors``; the file is whole or not there at all.

    Raises:
        KindError: a dtype that safetensors has no name for.
        UserError: a folder that is missing, write-protected or full.
    """
    # The widest first, so that each begins at a multiple of its own width.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    table: dict[str, Any] = {}
    checksums: dict[str, str] = {}
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        table[name] = {
            "dtype": _code(tensor),
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        checksums[name] = hashlib.sha256(raw(tensor)).hexdigest()
    meta = {
        "format": FORMAT,
        "version": str(VERSION),
        "recording": _json(text),
        "checksums": _json(checksums),
    }
    header = _json({"__metadata__": meta | {"sha256": _seal(meta, table)}, **table}).encode()
    header += b" " * (-len(header) % 8)

    def parts() -> Iterator[bytes | memoryview]:
        yield len(header).to_bytes(8, "little") + header
        for _, tensor in ordered:
            view = memoryview(raw(tensor))
            for start in range(0, len(view), PIECE):
                yield view[start : start + PIECE]

    write_whole(path, parts())


class Container:
    """Such a file, opened: its arrays lie in the file until they are asked for.

    Raises ``UserError`` where it cannot be read, is no recording, is of a later version, is cut
    short or was altered: the header at once, an array when it is first taken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.nbytes = os.fstat(file.fileno()).st_size
                length = int.from_bytes(file.read(8), "little")
                begins = 8 + length
                header = file.read(length) if length <= LONGEST else b""
                # A copy of one's own on the first write, so that a tensor over it may be written
                # to, which torch insists on, while the file stays as it is.
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if header else None
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            why = getattr(error, "strerror", None) or str(error)
            raise UserError("recording.unreadable", path=path, why=why) from error
        if header.startswith(OPENING) and self.nbytes < begins:
            raise UserError("recording.truncated", path=path, came=self.nbytes, expected=begins)
        with believed(path):
            self._open(header, begins)

    def _open(self, header: bytes, begins: int) -> None:
        path, self._table = self.path, json.loads(header)
        meta = dict(self._table.pop("__metadata__"))
        if meta.get("format") != FORMAT:
            raise UserError("recording.foreign", path=path)
        if (version := meta.get("version")) != str(VERSION):
            raise UserError("recording.newer", path=path, version=version, known=VERSION)
        seal = meta.pop("sha256", None)
        if seal != _seal(meta, self._table):
            raise UserError("recording.altered", path=path, part="header")
        ends = begins + max((e["data_offsets"][1] for e in self._table.values()), default=0)
        if self.nbytes != ends:
            key = "recording.truncated" if self.nbytes < ends else "recording.altered"
            raise UserError(key, path=path, part="end", came=self.nbytes, expected=ends)
        self._begins = begins
        self.text = json.loads(meta["recording"])
        self._checksums: dict[str, str] = json.loads(meta["checksums"])
        self._taken: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        """The array ``name``, checked when it is first taken, and never read into memory whole."""
        with believed(self.path):
            if name not in self._taken:
                self._taken[name] = self._take(name)
            return self._taken[name]

    def _take(self, name: str) -> Tensor:
        import torch

        entry = self._table[name]
        first, last = (self._begins + offset for offset in entry["data_offsets"])
        dtype, shape = getattr(torch, DTYPES[entry["dtype"]]), [int(n) for n in entry["shape"]]
        if min(shape, default=0) < 0 or last - first != prod(shape) * dtype.itemsize:
            raise UserError("recording.altered", path=self.path, part=name)
        if last == first:
            return torch.empty(shape, dtype=dtype)
        assert self._map is not None, "a file with arrays is mapped"
        with memoryview(self._map) as whole, whole[first:last] as own:
            if hashlib.sha256(own).hexdigest() != self._checksums[name]:
                raise UserError("recording.altered", path=self.path, part=name)
        count = (last - first) // dtype.itemsize
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=first).reshape(shape)


@contextmanager
def believed(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside means that ``path`` is no recording: that, and no traceback."""
    try:
        yield
    except (
        ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError,
        StopIteration,
    ) as e:  # fmt: skip
        if isinstance(e, RegardError):
            raise
        raise UserError("recording.foreign", path=path) from e


def _code(tensor: Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in CODES:
        raise KindError(
            f"a recording is saved in a dtype that safetensors knows ({', '.join(CODES)}), but an "
            f"array of it is {name}"
        )
    return CODES[name]


def _seal(meta: Mapping[str, str], table: Mapping[str, Any]) -> str:
    """The checksum of all that the header says."""
    return hashlib.sha256(_json([dict(meta), dict(table)]).encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
