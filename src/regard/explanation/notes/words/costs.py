"""The paper's table of costs: what a layer takes in time, in memory, in steps, and in length of path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.words.facts import DENIED, NOT, UNLIKE

Found = tuple[bool, str, dict[str, str]]

_LAYERS = (
    ("other", r"linear attention|flash|window|sparse|local|restricted|KV|cache|Linformer|Performer|Longformer|Reformer|Mamba|state space|线性注意力|滑动|窗口|稀疏|局部|受限|缓存|per (?:new )?token|each new token|每个(?:新)?(?:词元|token)|每生成|decoding|generat|sort|hash|LSH|FFT"),
    ("recurrent", r"\bRNNs?\b|LSTM|GRU|recurren\w*|循环"),
    ("convolutional", r"\bCNNs?\b|conv\w*|卷积"),
    ("linear", r"project\w*|投影|feed-?forward|\bFFN\b|\bMLP\b|前馈|linear layers?|全连接|线性层"),
    ("attention", r"(?:self-)?attention|(?:自)?注意力|Q\s*\*?\s*K\^?T|transformers?\b|scores?\b|weights\b|权重|分数"),
)  # fmt: skip
_MEASURES = (
    ("path", r"path|路径"), ("steps", r"sequential|顺序|串行|sequential operations|步(?:顺序)?操作"),
    ("memory", r"memory|space|storage|内存|显存|空间|matrix|矩阵"), ("time", r"complex|time|cost|comput|operations|FLOP|work|per[- ]layer|复杂度|计算|时间|代价|开销|成本"),
)  # fmt: skip
_KNOWN = {
    ("attention", "time"): ("n²d", "n²", "n²d + nd²", "n²d_k"), ("attention", "memory"): ("n²", "n²d", "hn²", "n² + nd"),
    ("attention", "steps"): ("1",), ("attention", "path"): ("1",),
    ("recurrent", "time"): ("nd²", "n"), ("recurrent", "steps"): ("n",), ("recurrent", "path"): ("n",),
    ("convolutional", "time"): ("knd²", "knd² ", "nd²"), ("convolutional", "steps"): ("1",), ("convolutional", "path"): ("log_k(n)", "log n", "n/k", "log_k n"),
    ("linear", "time"): ("nd²", "n"),
}  # fmt: skip
"""What is so of a layer, the usual way of writing it first."""
_PLAUSIBLE = re.compile(r"1|(?:n log|log|d{0,2}k?n{0,3})")
"""What somebody may take a cost for."""
_ORDER = re.compile(r"(?:O|\\mathcal ?\{?O\}?|Theta)\s*\(((?:[^()]|\([^()]*\))*)\)")


def _factors(text: str) -> str:
    """The letters of a product, each as often as it is a factor: "n²d" is "dnn"."""
    text = re.sub(r"_(?:model|k|v|h|head)\b", "", plain(text).lower())
    text = re.sub(
        r"\b(?:seq_?len|[lts])\b(?!\()", "n", re.sub(r"log_?\w*\s*\(?\s*n\s*\)?", "log", text)
    )
    text = re.sub(r"([a-z])\s*\^\s*\(?(\d)\)?", lambda match: match[1] * int(match[2]), text)
    rest = "".join(sorted(re.sub(r"log|[^a-z]", "", text)))
    return " ".join(filter(None, (rest, "log" if "log" in text else ""))) or re.sub(r"\D", "", text)


def _judge(layer: str, measure: str, inside: str) -> Found | None:
    known = _KNOWN.get((layer, measure))
    if known is None:
        return None
    if "+" in inside or "/" in inside:
        return (
            (True, "note.right", {})
            if any(inside.replace(" ", "") == plain(each).replace(" ", "") for each in known)
            else None
        )
    said = _factors(inside)
    if any(said == _factors(each) for each in known if "+" not in each):
        return True, "note.right", {}
    if not _PLAUSIBLE.fullmatch(said):
        return None
    key = "note.order" if (layer, measure) == ("attention", "time") else "note.wrong"
    return False, key, {"right": f"O({known[0]})"}


def _named(table: tuple[tuple[str, str], ...], text: str) -> list[str]:
    return [name for name, words in table if re.search(words, text, re.I)]


def check_costs(text: str) -> Iterator[Found]:
    """The orders that a sentence gives, each with the layer and the measure named last before it."""
    if NOT.search(text) or DENIED.search(text) or UNLIKE.search(text):
        return
    layer = measure = ""
    place = 0
    if len(found := [*_ORDER.finditer(text)]) > 4:
        return
    for match in found:
        before = re.split(r"[。;；]|\bwhile\b|\bwhereas\b|\bbut\b", text[place : match.start()])
        after = re.split(r"[,，。;；]|\band\b|\bwhile\b|\bO\(", text[match.end() :])[0]
        sides = (
            (after, before[-1])
            if re.match(r"\s*(?:for|in|with|of)\b", after)
            else (before[-1], after)
        )
        layers = _named(_LAYERS, sides[0]) or _named(_LAYERS, sides[1])
        if "other" in layers:
            return
        layer = layers[0] if layers else layer
        measures = (
            _named(_MEASURES, after)
            if re.match(r"\s*(?:\w+ )?(?:sequential|memory|path|time|步|串行|顺序|的)", after)
            else []
        )
        measures = measures or _named(_MEASURES, before[-1])
        measure = measures[0] if measures else measure
        if not measure and re.search(r"n\s*\^\s*2|d", match[1]):
            measure = "time"
        place = match.end()
        if len(layers) < 2 and layer and (verdict := _judge(layer, measure, match[1])):
            yield verdict


def check_cost_rows(line: int, head: list[str], cells: list[str]) -> list[Verdict]:
    """A row of a table of layers, a column for each measure."""
    layers = _named(_LAYERS, plain(cells[0]))
    if len(layers) != 1 or re.search(
        r"q|k\^t|av\b", plain(cells[0]).lower().replace("recurrent", "")
    ):
        return []
    found = []
    for name, cell in zip(head[1:], cells[1:], strict=False):
        measures, order = _named(_MEASURES, name), _ORDER.fullmatch(plain(cell).strip(" $"))
        verdict = (
            _judge(layers[0], measures[0], order[1])
            if order and measures[:1] not in ([], ["memory"])
            else None
        )
        if verdict:
            status = "right" if verdict[0] else "wrong"
            found.append(
                Verdict(
                    line,
                    f"{cells[0]}: {name} {cell}",
                    "right" if verdict[0] else "wrong",
                    f"note.{status}",
                    verdict[2],
                )
            )
    return found
