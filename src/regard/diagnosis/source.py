"""What a subject's source says: the lines that matter, its prose, the layout and mask it states.

Numbers decide what is wrong; the source decides where, and between names that numbers cannot tell
apart.  Everything here is a reading of text and runs nothing.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """The text of a subject's file, and which of its lines the subject reaches."""

    text: str = ""
    name: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    """First and last line, from 1, of the target and of each definition that it uses."""
    docs: tuple[str, ...] = ()
    others: str = field(default="", repr=False)
    """The code of the file's other definitions."""

    @cached_property
    def _comments(self) -> dict[int, tuple[int, str]]:
        found = {}
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type == tokenize.COMMENT:
                    found[token.start[0]] = (token.start[1], token.string.lstrip("# "))
        except (tokenize.TokenError, SyntaxError):
            pass
        return found

    @cached_property
    def tree(self) -> ast.AST:
        """The file's syntax tree; an empty one where it cannot be parsed."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError):
            return ast.Module([], [])

    @cached_property
    def _docstring_lines(self) -> set[int]:
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return lines

    @cached_property
    def code(self) -> list[tuple[int, str]]:
        """The reachable lines as (number, text), without comments and docstrings."""
        lines = self.text.splitlines()
        found = []
        for first, last in self.spans:
            for n in range(first, min(last, len(lines)) + 1):
                if n in self._docstring_lines:
                    continue
                text = lines[n - 1]
                if n in self._comments:
                    text = text[: self._comments[n][0]]
                if text.strip():
                    found.append((n, text.rstrip()))
        return found

    @cached_property
    def joined(self) -> str:
        """The reachable code as one text."""
        return "\n".join(text for _, text in self.code)

    @cached_property
    def comments(self) -> list[str]:
        """The comments that stand among the reachable lines."""
        return [
            comment
            for n, (_, comment) in sorted(self._comments.items())
            if any(first - 2 <= n <= last for first, last in self.spans)
        ]

    @cached_property
    def prose(self) -> str:
        """Docstrings and comments, in that order."""
        return "\n".join([*self.docs, *self.comments])

    def line(self, *patterns: str, avoid: str | None = None) -> int | None:
        """The number of the first line on which the earliest of ``patterns`` is found."""
        for pattern in patterns:
            for n, text in self.code:
                if re.search(pattern, text) and not (avoid and re.search(avoid, text)):
                    return n
        return None

    def at(self, number: int | None) -> str:
        """The code of line ``number``, its comment taken off."""
        return next((text.strip() for n, text in self.code if n == number), "")

    def says(self, pattern: str) -> bool:
        """Whether the prose holds ``pattern``, whatever the case of its letters."""
        return re.search(pattern, self.prose, re.IGNORECASE) is not None


def read(text: str, name: str) -> Source:
    """The source of ``name`` in a file of this ``text``; empty where it cannot be parsed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return Source()
    tops: dict[str, Definition] = {
        node.name: node for node in tree.body if isinstance(node, Definition)
    }
    target = tops.get(name.partition(".")[0])
    if target is None and (made := _maker(tree, name)) in tops:
        return read(text, made)
    if target is None:  # a value made in the file: all of it is read
        parts = (node for node in ast.walk(tree) if isinstance(node, (ast.Module, *_DEFINITIONS)))
        docs = tuple(doc for node in parts if (doc := ast.get_docstring(node)))
        return Source(text, name, ((1, len(text.splitlines())),), docs)
    reached: dict[str, Definition] = {}
    queue: list[Definition] = [target]
    while queue:
        node = queue.pop()
        if node.name in reached:
            continue
        reached[node.name] = node
        queue += [tops[used] for used in names_in(node) if used in tops]
    ordered = [target, *(node for node in reached.values() if node is not target)]
    told = [
        doc
        for node in ordered
        for part in ast.walk(node)
        if isinstance(part, Definition) and (doc := ast.get_docstring(part))
    ]
    spans = tuple((start_of(node), node.end_lineno or node.lineno) for node in ordered)
    rest = [ast.unparse(node) for key, node in tops.items() if key not in reached]
    module = ast.get_docstring(tree)
    if module:
        told.append(module)
    return Source(text, name, spans, tuple(told), "\n".join(rest))


def _maker(tree: ast.Module, name: str) -> str:
    """What a name is bound to or made by on the file's top level; empty where that is no name."""
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(target)], ast.Name(made) | ast.Call(ast.Name(made))):
                if target == name:
                    return made
    return ""


def start_of(node: Definition) -> int:
    """The line on which a definition begins, its decorators included."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def names_in(node: ast.AST) -> Iterable[str]:
    """Every name that the node mentions."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def source_of(subject: Any) -> Source:
    """The source of a callable, a class or an instance; empty where Python has none."""
    thing = inspect.unwrap(subject) if inspect.isfunction(subject) else subject
    if not (inspect.isfunction(thing) or inspect.ismethod(thing) or inspect.isclass(thing)):
        thing = type(thing)
    try:
        lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError):
        return Source()
    module = sys.modules.get(getattr(thing, "__module__", ""))
    try:
        whole = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        whole = ""
    name = getattr(thing, "__qualname__", "")
    if whole and "<locals>" not in name:
        found = read(whole, name)
        if found.spans and found.spans != ((1, len(whole.splitlines())),):
            return found
    own = inspect.cleandoc("".join(lines)) if not lines[0][:1].isspace() else _dedented(lines)
    found = read(own, thing.__name__)
    shift = max(first - 1, 0)
    return Source(
        "\n" * shift + found.text,
        found.name,
        tuple((a + shift, b + shift) for a, b in found.spans),
        found.docs,
        found.others,
    )


def _dedented(lines: list[str]) -> str:
    width = len(lines[0]) - len(lines[0].lstrip())
    return "".join(line[width:] if line[:width].isspace() else line for line in lines)


def casts_to_half(source: Source) -> bool:
    """Whether the code itself computes in float16."""
    return source.line(r"\.half\(\)|float16|torch\.half\b") is not None


# The layout that the prose or an unpacking states

_LETTERS: dict[str, str] = {}
for _letter, _words in {
    "B": "b bs bsz batch batch_size batchsize n_batch nbatch num_batches nb bz batches 批次 批 "
         "批大小 批量",
    "T": "t l seq seq_len seqlen seq_length sequence_length sequence length len time tokens "
         "n_tokens "
    "num_tokens tq q_len len_q lq tgt_len query_len n_q nq time_steps steps s src_len timesteps "
    "seq_len_q t_q seq_q target_len tlen slen positions sl max_len block_size 序列长度 序列 长度 "
    "k_len len_k lk kv_len key_len n_k nk seq_len_k t_k seq_k seq_len_v len_v "
    "value_len num_queries num_keys n_queries n_keys num_q num_k m words num_words n_words qlen "
    "klen sequence_len",
    "H": "h heads n_heads num_heads nhead n_head head nh num_head n_h 头数 头",
    "C": "c d_model channel dim embed embed_dim embed_size emb emb_dim embedding_dim embedding "
    "hidden hidden_size hidden_dim n_embd channels model_dim features d_in c_in e model width "
    "emb_size embeddings embedding_size in_dim input_dim n_embed 特征 特征维度 维度 模型维度 d_emb",
    "D": "d d_k dk d_v dv head_dim dim_head d_head hd head_size hs depth dh kd vd key_dim "
         "value_dim "
    "dim_k dim_v dim_q d_q dq dim_per_head size_per_head 头维度",
}.items():  # fmt: skip
    for _word in _words.split():
        _LETTERS[_word] = _letter

_SHAPE = re.compile(
    r"[\(\[（]\s*([\w\u4e00-\u9fff·*/\. ]+(?:\s*[,，×x]\s*[\w\u4e00-\u9fff·*/\.]+)+)\s*,?\s*[\)"
    r"\]）]"
)


def letters(words: Iterable[str]) -> str:
    """``batch, seq_len, d_model`` as ``BTC``; ``?`` for a word that is none of the legend's."""
    found = []
    for position, written in enumerate(words):
        word = re.sub(r"\s*[*·]\s*.*", "", written.strip()).strip(". ").lower().replace(" ", "_")
        letter = _LETTERS.get(word) or _letter_of(word)
        if word == "n":
            letter = "B" if position == 0 else "T"
        found.append(letter)
    text = "".join(found)
    if len(text) == 4 and "H" in text and text.endswith("C"):
        text = text[:-1] + "D"
    if text[:2] == "B?" and text[2:] in ("C", "D", ""):
        text = "BT" + text[2:]
    return text


_PARTS = (
    ("B", {"batch", "bs", "bsz", "samples", "sentences", "批次", "批"}),
    ("D", {"head", "per"}),
    ("T", {"len", "length", "seq", "sequence", "time", "tokens", "steps", "queries", "keys", "src",
           "tgt", "positions", "words", "frames", "patches", "query", "key", "tok"}),
    ("C", {"dim", "dims", "width", "emb", "embed", "embedding", "model", "hidden", "feat",
           "features", "feature", "channels", "size", "units"}),
)  # fmt: skip


def _letter_of(word: str) -> str:
    """The letter of a word by its parts, as model_width is C and d_head D; ``?`` for none."""
    parts = set(word.split("_"))
    if len(parts) < 2:
        return "?"
    sized = parts & {"d", "dim", "size", "width", "depth"}
    if parts & {"head", "heads"} and not sized:
        return "H"
    if sized and parts & {"q", "k", "v", "query", "key", "value"}:
        return "D"
    return next((letter for letter, words in _PARTS if parts & words), "?")


def shapes_in(text: str) -> list[str]:
    """The shapes that ``text`` writes in brackets, as letters, those with a ``?`` left out."""
    found = []
    for match in _SHAPE.finditer(text):
        words = re.split(r"[,，×]|\bx\b", match.group(1))
        if len(words) == 2 and words[0].strip().lower() in ("n", "m"):
            words[0] = "t"
        shape = letters(words)
        if "?" not in shape and len(set(shape)) == len(shape):
            found.append(shape)
    return found


def states_square_weights(source: Source) -> bool:
    """Whether the prose gives a matrix the same size of features twice."""
    found = re.findall(r"[\(\[]\s*(\w+)\s*[,x×]\s*\1\s*[\)\]]", source.prose)
    return any(_LETTERS.get(word.lower()) in ("C", "D") for word in found)


def _bare_shapes(text: str) -> list[str]:
    """The shapes behind that word without brackets: ``Shape: Batch x Time x Channel``."""
    found = re.findall(
        r"(?:shaped?|layout|形状)\s*(?:of|is|are|为|[:：=])?\s*"
        r"(\w+(?:\s*[x×,]\s*\w+){1,3})",
        text,
        re.IGNORECASE,
    )
    return [shape for written in found for shape in shapes_in(f"({written})")]


LAYOUTS = ("BTC", "TBC", "BCT", "BTD", "TBD", "BHTD", "BTHD", "TBHD", "TD", "TC")


def stated_layout(source: Source) -> str | None:
    """The layout of the inputs that the source states, in the legend's letters."""
    if re.search(r"batch_first\s*(?::\s*bool)?\s*=\s*True", source.joined):
        return "BTC"
    for doc in source.docs[:4]:
        for shape in (*shapes_in(doc), *_bare_shapes(doc)):
            if shape in LAYOUTS:
                return shape
    patterns = (
        r"^\s*([\w\s,]+?)\s*=\s*\(?\w+\.(?:shape|size\(\))\)?\s*(?:\[[^\]]*\])?\s*$",
        r"^\s*([\w\s,]+?)\s*=\s*\w+\.(?:shape|size\(\))\s*$",
    )
    for _, text in source.code:
        for pattern in patterns:
            match = re.match(pattern, text)
            if match and "," in match.group(1):
                words = [w for w in match.group(1).split(",") if w.strip()]
                shape = letters(words).replace("?", "C" if len(words) == 3 else "?")
                if shape in LAYOUTS:
                    return shape
    for comment in source.comments:
        for shape in shapes_in(comment)[:1]:
            if shape in LAYOUTS:
                return shape
    if re.search(
        r"\b(N|B|bs|bsz|batch|batch_size)\s*=\s*\w+\.(shape\[0\]|size\(0\))", source.joined
    ):
        return "BTC"
    return None
