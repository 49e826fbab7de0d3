"""An explanation before it has a face: named steps over a sheet of tables, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ValueRangeError
from regard._words import Language, say
from regard.explanation.numbers import column
from regard.explanation.sheet import Floats, Sheet, Table

Cell = tuple[str, int, int]
"""A number that a text names: table, row, column.  It follows when the table is moved."""
Value = Cell | str | int


@dataclass(frozen=True)
class Chart:
    """A figure of a table: columns ``ys`` over column ``x``, or bars of each row."""

    table: str
    x: int
    ys: tuple[int, ...]
    log: bool = False
    """Whether both axes count in powers."""


@dataclass(frozen=True)
class Step:
    """One step: its tables, and what is said of it in words, in mathematics and in code."""

    name: str
    tables: tuple[Table, ...]
    """What this step computes or brings in."""
    shown: tuple[str, ...]
    """The tables that a face draws, those that this one is computed from among them."""
    formula: str
    latex: str
    values: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    text: str = ""
    """The catalogue's name of what is said, where it is not the step's own."""
    chart: Chart | None = None

    def __getitem__(self, name: str) -> Floats:
        """The array of the table ``name``."""
        return next(table.array for table in self.tables if table.name == name)

    @property
    def key(self) -> str:
        """The catalogue's name of this step's words."""
        return self.text if "." in self.text else f"step.{self.text or self.name}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each of its tables."""
        return {table.name: table.array.shape for table in self.tables}

    @property
    def multiplications(self) -> int:
        """How many numbers are multiplied or divided in this step."""
        return sum(table.multiplications for table in self.tables)

    @property
    def memory(self) -> int:
        """The bytes of this step's tables in float64."""
        return sum(table.array.nbytes for table in self.tables)

    def code(self, library: str) -> list[str]:
        """The lines of ``library``, "numpy" or "torch", that compute this step's tables."""
        return [line for table in self.tables if (line := table.code(library))]

    @property
    def numpy(self) -> str:
        """The lines of NumPy that do this step."""
        return "\n".join(self.code("numpy"))

    @property
    def torch(self) -> str:
        """The lines of PyTorch that do this step."""
        return "\n".join(self.code("torch"))


@dataclass(frozen=True)
class Trace:
    """The definition, run once, step by step.

    ``trace["scores"]`` is a step, ``trace.output`` the array that comes out.  Its faces are
    ``text``, ``markdown``, ``document`` (JSON), ``save`` (by suffix) and, in a notebook, itself.
    """

    sheet: Sheet
    steps: tuple[Step, ...]
    result: str
    """The name of the table that comes out."""
    tokens: tuple[str, ...]
    """What each row of the input is called."""
    title: str = "step.title"
    note: str = ""
    """The catalogue's name of what a reader must know of the numbers that came in."""

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        names = ", ".join(step.name for step in self.steps)
        raise ValueRangeError(f"step must be one of {names}; not {name!r}")

    @property
    def output(self) -> Floats:
        """The array that comes out: (n, d)."""
        return self.sheet[self.result]

    @property
    def weights(self) -> Floats:
        """The weights that made it, (heads, n, n), or (n, n) where there is one head."""
        return self.sheet["A"]

    @property
    def multiplications(self) -> int:
        """How many numbers are multiplied or divided in all."""
        return sum(step.multiplications for step in self.steps)

    def only(self, *names: str) -> Trace:
        """The same trace with these steps alone."""
        steps = tuple(self[name] for name in names)
        return Trace(self.sheet, steps, self.result, self.tokens, self.title, self.note)

    def words(self, step: Step, lang: Language) -> tuple[str, str]:
        """The title of ``step`` and what is said of it, its numbers filled in."""
        values = {name: self.value(value) for name, value in step.values.items()}
        title = say(f"{step.key}-title", lang, **values)
        return title, say(step.key, lang, **values)

    def value(self, value: Value) -> str:
        """A value of a step's words, as it is written."""
        if isinstance(value, tuple):
            name, row, col = value
            matrix = self.sheet[name].reshape((-1, self.sheet[name].shape[-1]))
            return column(matrix[row, col : col + 1])[0]
        return str(value)

    def script(self, library: str) -> str:
        """A whole program of NumPy or PyTorch that computes every table of these steps."""
        lines = ["import numpy as np"] if library == "numpy" else ["import torch"]
        # float64, as the definition; what this program is compared with is.
        wrap = "np.array({})" if library == "numpy" else "torch.tensor({}, dtype=torch.float64)"
        inf = "-np.inf" if library == "numpy" else "-torch.inf"
        wanted = self._needed()
        for table in self.sheet.tables.values():
            if table.name not in wanted:
                continue
            if not table.code(library):
                text = str(table.array.tolist()).replace("-inf", inf)
                lines.append(f"{table.name} = {wrap.format(text)}")
            else:
                lines.append(table.code(library))
        return "\n".join(lines) + "\n"

    def _needed(self) -> set[str]:
        """The tables of these steps, and all that they are computed from."""
        wanted: set[str] = set()
        todo = [table.name for step in self.steps for table in step.tables]
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo.extend(self.sheet.tables[name].inputs)
        return wanted

    # Faces

    def text(self, lang: Language = "en", width: int = 100) -> str:
        """What the terminal shows, without its colours."""
        from regard.explanation.faces.terminal import plain

        return plain(self, lang, width)

    def markdown(self, lang: Language = "en") -> str:
        """The steps as Markdown, formulas in LaTeX."""
        from regard.explanation.faces.markdown import markdown

        return markdown(self, lang)

    def document(self, lang: Language = "en") -> dict[str, Any]:
        """The steps as plain dicts, lists, strings and numbers: what JSON holds."""
        from regard.explanation.faces.document import document

        return document(self, lang)

    def save(self, path: str | Path, lang: Language = "en") -> None:
        """Saves it in the format that the suffix names: .html, .md or .json.

        Raises ``UserError`` for another suffix, and for a file that cannot be written.
        """
        from regard.explanation.faces import save

        save(self, path, lang)

    def _repr_html_(self) -> str:
        from regard.explanation.faces.notebook import fragment

        return fragment(self)

    def __repr__(self) -> str:
        return f"Trace({', '.join(step.name for step in self.steps)})"


class Steps:
    """Collects steps while their tables are being computed."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.made: list[Step] = []
        self._told: set[str] = set()

    def step(
        self,
        name: str,
        formula: str,
        latex: str,
        *,
        shown: Sequence[str] = (),
        text: str = "",
        chart: Chart | None = None,
        **values: Value,
    ) -> None:
        """A step of every table that no step has told of yet."""
        tables = tuple(t for t in self.sheet.tables.values() if t.name not in self._told)
        self._told.update(self.sheet.tables)
        draws = tuple(shown) or tuple(table.name for table in tables)
        self.made.append(Step(name, tables, draws, formula, latex, values, text, chart))


def rows_named(count: int) -> tuple[str, ...]:
    """What rows without words are called."""
    return tuple(f"x{_low(i + 1)}" for i in range(count))


def _low(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def seen_as_numbers(seen: NDArray[np.bool_]) -> Floats:
    """1 where a query may attend to a key, 0 where not."""
    return seen.astype(np.float64)
