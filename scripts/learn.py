"""Writes docs/learn from the lessons and their computed numbers; --check only compares."""

import sys
from pathlib import Path

from regard._words import LANGUAGES
from regard.course.figures import LESSONS, lesson

DOCS = Path(__file__).resolve().parents[1] / "docs" / "learn"


def pages() -> dict[Path, str]:
    return {
        DOCS / lang / f"{number}.md": lesson(number, lang)
        for lang in LANGUAGES
        for number in LESSONS
    }


if __name__ == "__main__":
    stale = [
        path
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" not in sys.argv:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages()[path], encoding="utf-8")
    print(*(path.relative_to(DOCS) for path in stale))
    sys.exit(bool(stale) and "--check" in sys.argv)
