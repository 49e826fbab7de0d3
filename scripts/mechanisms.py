"""Writes docs/mechanisms from what ``regard mechanisms`` prints; --check only compares."""

import sys
from pathlib import Path

from regard._words import LANGUAGES, Language, say
from regard.nn.mechanisms import MECHANISMS, Mechanism

DOCS = Path(__file__).resolve().parents[1] / "docs" / "mechanisms"
FACTS = ("time", "memory", "path", "parallel")
TITLES: dict[str, dict[Language, str]] = {
    "page": {"en": "Mechanisms side by side", "zh": "各种机制并列比较"},
    "one": {"en": "How one attention is computed", "zh": "一次注意力如何计算"},
    "heads": {
        "en": "How heads are split, attended and joined",
        "zh": "多个头如何拆分、计算、拼接",
    },
    "table": {"en": "What each costs", "zh": "各自的代价"},
    "red": {
        "en": "Three vectors attend to each other; the first query is followed in red. "
        "T queries and S keys of width D, values of width E.",
        "zh": "三个向量相互关注；红色标出第一个查询的全过程。"
        "T 个查询、S 个键，宽度为 D；值的宽度为 E。",
    },
    "two": {
        "en": "The same vectors with two heads: each head sees its own part of a vector.",
        "zh": "同样的向量，分成两个头：每个头只看向量中属于自己的部分。",
    },
    "generated": {
        "en": "`regard mechanisms` prints the same table; each name leads to its formula and to an "
        "example that runs.",
        "zh": "`regard mechanisms` 打印同一张表；点名称可看到公式和一个可以运行的示例。",
    },
}


def page(lang: Language) -> str:
    """The page in ``lang``."""

    def title(key: str) -> str:
        return TITLES[key][lang]

    head = [say("mechanisms.mechanism", lang), *(say(f"mechanisms.{f}", lang) for f in FACTS)]
    head += [say(f"mechanisms.{key}", lang) for key in ("needs", "used")]
    lines = [
        "(mechanisms)=",
        f"# {title('page')}",
        "",
        f"## {title('one')}",
        "",
        f"![{title('one')}](attention.{lang}.svg)",
        "",
        title("red"),
        "",
        f"## {title('heads')}",
        "",
        f"![{title('heads')}](heads.{lang}.svg)",
        "",
        title("two"),
        "",
        f"## {title('table')}",
        "",
        say("mechanisms.legend", lang),
        "",
        title("generated"),
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(row(mechanism, lang) for mechanism in MECHANISMS),
        "",
    ]
    for mechanism in MECHANISMS:
        lines += section(mechanism, lang)
    return "\n".join(lines)


def row(m: Mechanism, lang: Language) -> str:
    """One row of the table."""
    parallel = say("mechanisms.yes" if m.parallel else "mechanisms.no", lang)
    name = f"[{say(f'mechanisms.{m.name}', lang)}](#mechanism-{m.name})"
    costs = (f"O({cost})".replace(" ", "\u00a0") for cost in (m.time, m.memory, m.path))
    return f"| {' | '.join([name, *costs, parallel, m.needs(lang), m.used(lang)])} |"


def section(m: Mechanism, lang: Language) -> list[str]:
    """Formula, source and example of one mechanism."""
    return [
        f"(mechanism-{m.name})=",
        f"### {say(f'mechanisms.{m.name}', lang)}",
        "",
        "```text",
        m.formula,
        "```",
        "",
        f"{say('mechanisms.source', lang)}: {m.source}",
        "",
        f"```{{literalinclude}} ../../examples/{m.example}",
        ":language: python",
        "```",
        "",
    ]


if __name__ == "__main__":
    pages = {DOCS / f"{lang}.md": page(lang) for lang in LANGUAGES}
    stale = [
        path
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(pages[path], encoding="utf-8")
    print(*(path.relative_to(DOCS) for path in stale))
    sys.exit(bool(stale) and "--check" in sys.argv)
