"""A sheet computed again, as the page does when a number is moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.explanation.sheet import Sheet
from regard.explanation.trace import Trace


def replayed(trace: Trace, **moved: Any) -> Trace:
    """``trace`` with the given tables ``moved`` and everything that follows from them."""
    sheet = Sheet()
    for table in trace.sheet.tables.values():
        if table.inputs:
            sheet.add(
                table.name, table.operation, *table.inputs,
                symbol=table.symbol, rows=table.rows, columns=table.columns,
            )  # fmt: skip
        else:
            array = moved.get(table.name, table.array)
            sheet.tables[table.name] = replace(table, array=array)
    return replace(trace, sheet=sheet)
