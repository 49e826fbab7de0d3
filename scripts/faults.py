"""Writes the page of every fault, its picture and its Chinese, from the one catalogue.

    .venv/bin/python scripts/faults.py

``docs/faults/*.md``, ``docs/faults/pictures/*.svg`` and the pages' catalogues in ``docs/locale``
are its output: edit ``src/regard/words`` and ``src/regard/diagnosis/examples.py`` instead.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from regard._words import Language, say
from regard.diagnosis.examples import FAULTS, example
from regard.diagnosis.faulty_lines import CODE

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "faults"
CHINESE = ROOT / "docs" / "locale" / "zh_CN" / "LC_MESSAGES" / "faults"
CELL = 56


def sentence(key: str, lang: Language) -> str:
    """The catalogue's words as a sentence of their own."""
    text = say(key, lang)
    return text + "。" if lang == "zh" else text[0].upper() + text[1:] + "."


def heading(key: str, lang: Language) -> str:
    text = say(key, lang)
    return text if lang == "zh" else text[0].upper() + text[1:]


def page(fault: str, lang: Language) -> str:
    faulty, mended = CODE[fault]
    return "\n".join(
        [
            f"# {fault}",
            "",
            sentence(f"fault.{fault}-says", lang),
            "",
            f"```text\n{faulty}\n```",
            "",
            f"## {heading('check.expected', lang)}",
            "",
            sentence(f"fault.{fault}-right", lang),
            "",
            f"![{fault}](pictures/{fault}.svg)",
            "",
            sentence("check.picture", lang),
            "",
            f"## {heading('check.why', lang)}",
            "",
            sentence(f"fault.{fault}-why", lang),
            "",
            f"## {heading('check.mend', lang)}",
            "",
            sentence(f"fault.{fault}-mend", lang),
            "",
            f"```text\n{mended}\n```",
            "",
        ]
    )


def texts(fault: str) -> Iterator[tuple[str, str]]:
    """Each text of a page in English, with its Chinese."""
    yield fault, fault
    image = f"![{fault}](pictures/{fault}.svg)"
    yield image, image
    for name in ("says", "right", "why", "mend"):
        yield tuple(sentence(f"fault.{fault}-{name}", lang) for lang in ("en", "zh"))
    yield tuple(sentence("check.picture", lang) for lang in ("en", "zh"))
    for key in ("check.expected", "check.why", "check.mend"):
        yield tuple(heading(key, lang) for lang in ("en", "zh"))


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def catalogue(fault: str) -> str:
    """The page's gettext catalogue."""
    head = (
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: zh_CN\\n"\n'
    )
    entries = dict(texts(fault))
    return head + "".join(
        f"\nmsgid {quoted(en)}\nmsgstr {quoted(zh)}\n" for en, zh in entries.items()
    )


def picture(fault: str) -> str:
    """Both matrices side by side: the right one left, the faulty one right."""
    shown = example(fault)
    height = CELL * max(len(shown.right), len(shown.came)) + 8
    gap = CELL * shown.right.shape[1] + CELL // 2
    width = gap + CELL * shown.came.shape[1] + 8
    cells = [*_cells(shown.right, 4), *_cells(shown.came, 4 + gap)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="15">'
        + "".join(cells)
        + "</svg>\n"
    )


def _cells(matrix: object, left: int) -> Iterator[str]:
    largest = max((abs(x) for row in matrix for x in row if math.isfinite(x)), default=1.0) or 1.0
    for i, row in enumerate(matrix):
        for j, x in enumerate(row):
            share = abs(x) / largest if math.isfinite(x) else 0.0
            fill = (
                "#e8a0a0" if not math.isfinite(x) else f"rgba(60,110,200,{0.08 + 0.72 * share:.2f})"
            )
            text = "NaN" if not math.isfinite(x) else f"{x:.2f}".replace("-0.00", "0.00")
            place = f'x="{left + CELL * j}" y="{4 + CELL * i}"'
            yield f'<rect {place} width="{CELL - 2}" height="{CELL - 2}" rx="4" fill="{fill}"/>'
            middle = f'x="{left + CELL * j + CELL // 2}" y="{4 + CELL * i + CELL // 2 + 5}"'
            yield f'<text {middle} text-anchor="middle" fill="#111">{text}</text>'


def files() -> dict[Path, str]:
    """Every file that this writes, with its text."""
    found = {}
    for fault in FAULTS:
        found[PAGES / f"{fault}.md"] = page(fault, "en")
        found[PAGES / "pictures" / f"{fault}.svg"] = picture(fault)
        found[CHINESE / f"{fault}.po"] = catalogue(fault)
    return found


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
