"""What is wrong too often is not wrong: who finds fault with most of a table has misread the table.

A slip stands among lines that are right.  Where three lines or more of one block (a table, a list, a
program: lines without an empty one between them) seem wrong, and fewer are right, then it is more
likely that a size or a name was bound to the wrong thing, and nothing is said of them.  Plain
arithmetic, ``3 * 2 = 5``, binds nothing and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from regard.explanation.notes.claim import Verdict

MOST = 2
"""Lines of one block that may be wrong whatever the others are."""
_ARITHMETIC = re.compile(r"[\d\s.*/+()^=,\[\]%-]+")


def without_doubtful(verdicts: Iterable[Verdict], lines: Sequence[str]) -> list[Verdict]:
    """``verdicts`` but for those that find fault with most of a block of ``lines``."""
    verdicts = [*verdicts]
    blocks = _blocks(lines)
    wrong: dict[int, set[int]] = {}
    right: dict[int, set[int]] = {}
    for verdict in verdicts:
        kept = right if verdict.status == "right" else wrong if _bound(verdict) else {}
        kept.setdefault(blocks[verdict.line - 1], set()).add(verdict.line)
    doubtful = {
        block
        for block, said in wrong.items()
        if len(said) > max(MOST, len(right.get(block, set()) - said))
    }
    return [
        verdict
        for verdict in verdicts
        if not (_bound(verdict) and blocks[verdict.line - 1] in doubtful)
    ]


def _bound(verdict: Verdict) -> bool:
    """Whether it is wrong by a value that rests on what was told elsewhere."""
    return verdict.key == "note.wrong" and not _ARITHMETIC.fullmatch(verdict.claim)


def _blocks(lines: Sequence[str]) -> list[int]:
    """For each line the block that it stands in; those of a fence are one."""
    found, block, fenced = [], 0, False
    for line in lines:
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        block += not line.strip() and not fenced
        found.append(block)
    return found
