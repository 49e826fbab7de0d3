"""Which installed fonts can draw a text: DejaVu Sans first, one with Chinese where needed."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import lru_cache

from regard._errors import UserError

_LATIN = "DejaVu Sans"  # comes with matplotlib, so it is always there
_CHINESE = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "PingFang SC",
    "Microsoft YaHei",
    "Hiragino Sans GB",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Heiti SC",
    "STHeiti",
    "SimHei",
    "Arial Unicode MS",
    "Droid Sans Fallback",
    "SimSun",
    "Songti SC",
    "Noto Serif CJK SC",
    "AR PL UMing CN",
)


def families(texts: Iterable[str]) -> list[str]:
    """The font families, in order of fallback, that together hold every letter of ``texts``.

    Raises ``UserError`` with the letters that no installed font has.
    """
    needed = {letter for text in texts for letter in text if not letter.isspace()}
    chosen = [_LATIN]
    missing = {letter for letter in needed if ord(letter) not in _letters(_LATIN)}
    for family in (*_CHINESE, *_others()) if missing else ():
        had = {letter for letter in missing if ord(letter) in _letters(family)}
        if had:
            chosen.append(family)
            missing -= had
        if not missing:
            break
    if missing:
        letters = sorted(missing)
        raise UserError(
            "picture.no-font",
            letters="".join(letters[:20]) + ("…" if len(letters) > 20 else ""),
            count=len(letters),
        )
    return chosen


@lru_cache(maxsize=64)
def glyphs(family: str, letters: str) -> bytes | None:
    """A font file with those of ``letters`` that ``family`` has; None where it has none."""
    from fontTools import subset
    from fontTools.ttLib import TTFont
    from matplotlib import font_manager

    had = [ord(letter) for letter in letters if ord(letter) in _letters(family)]
    if not had:
        return None
    path = font_manager.findfont(font_manager.FontProperties(family=[family]))
    options = subset.Options(hinting=False, notdef_outline=True, name_IDs=[])
    options.layout_features = ["ccmp", "mark", "mkmk", "init", "medi", "fina", "isol", "rlig"]
    options.drop_tables += ["FFTM", "vhea", "vmtx", "VORG", "BASE"]
    face = getattr(path, "face_index", 0)
    with TTFont(path, fontNumber=face, lazy=True, recalcTimestamp=False) as font:
        if (
            "CFF " in font
        ):  # of Chinese: its letters stand alone, and its rules take seconds to read
            options.drop_tables += ["GSUB", "GPOS", "GDEF"]
        cutter = subset.Subsetter(options)
        cutter.populate(unicodes=had)
        cutter.subset(font)
        file = io.BytesIO()
        font.save(file)
    return file.getvalue()


def _installed() -> set[str]:
    from matplotlib import font_manager

    return {entry.name for entry in font_manager.fontManager.ttflist}


def _others() -> list[str]:
    # "Last resort" fonts claim every letter and draw a box for each.
    return sorted(
        name for name in _installed() - {_LATIN, *_CHINESE} if "resort" not in name.casefold()
    )


@lru_cache(maxsize=64)
def _letters(family: str) -> frozenset[int]:
    """The code points that ``family`` has glyphs for; none where it is not installed."""
    from matplotlib import font_manager

    if family not in _installed():
        return frozenset()
    try:
        path = font_manager.findfont(
            font_manager.FontProperties(family=[family]), fallback_to_default=False
        )
        return frozenset(font_manager.get_font(path).get_charmap())
    except (ValueError, OSError, RuntimeError):
        return frozenset()  # listed in matplotlib's cache but gone or broken since
