"""The line of a fault in the subject's source, and the mend as a changed line."""

from __future__ import annotations

import re

from regard.diagnosis.source import Source

_SOFTMAX = r"softmax\s*\(|Softmax\(|exp\("
_PRODUCT = r"@|matmul|einsum|bmm|\.dot\("
_MASKING = r"masked_fill|where\(|mask\b.*\*|\*.*mask\b|\[[^\]]*mask[^\]]*\]\s*=|\+\s*\(?.*mask|mask"
_SCALING = r"sqrt\s*\(|\*\*\s*\(?\s*-?\s*\(?\s*(?:0?\.5|1\s*/\s*2)|scal(?:e|ing)\b|math\.pow|rsqrt"

PATTERNS: dict[str, tuple[str, ...]] = {
    "scale-model-dim": (
        r"(?:sqrt\s*\(|pow\(|rsqrt).*(?:d_model|embed|n_embd|hidden|dim\b|emb|\bC\b|\bd\b|model)",
        r"(?:d_model|embed\w*|n_embd|hidden\w*|dim|emb\w*|\bC|\bd|model\w*)\s*\)?\s*\*\*",
        _SCALING,
    ),
    "scale-missing": (
        r"(?:scores?|energy|att\w*|wei\w*|logits|sim\w*|dots|s)\s*=\s*.*(?:@|matmul|einsum|bmm|"
        r"\.dot\()",
        r"scal(?:e|ing)\s*=\s*1(?:\.0?)?\b",
        r"softmax.*(?:@|matmul)",
        _PRODUCT,
        _SOFTMAX,
    ),
    "scale-no-root": (
        r"/\s*\(?[\w.]*(?:d_k|dk|head_dim|dim|d|depth|shape\[-1\]|"
        r"size\(-1\))\b",
        r"scal(?:e|ing)\b.*=",
        r"/",
    ),
    "scale-inverted": (
        r"\*\s*(?:\w+\.)?(?:sqrt|"
        r"math)",
        r"\*.*(?:sqrt|"
        r"\*\*\s*\(?0?\.5)",
        r"\*\*\s*\(?\s*0?\.5",
        r"scal(?:e|ing)\b",
        r"sqrt",
    ),
    "scale-precedence": (r"\*\*\s*1\s*/\s*2", r"\*\*\s*-\s*1\s*/\s*2", r"/\s*2\b", _SCALING),
    "scale-wrong-size": (_SCALING, r"/\s*\w+", _PRODUCT),
    "scale-twice": (_SCALING, r"scal(?:e|ing)", r"/"),
    "softmax-axis": (_SOFTMAX, r"\.sum\("),
    "softmax-heads": (_SOFTMAX, r"\.sum\("),
    "softmax-single": (_SOFTMAX, r"\.sum\("),
    "softmax-missing": (r"(?:attn\w*|weights?|probs?|alpha|wei|attention)\w*\s*=", _PRODUCT),
    "softmax-overflow": (r"exp\s*\(", _SOFTMAX),
    "split-no-transpose": (
        r"(?:view|reshape)\s*\((?:[^()]|\([^()]*\))*heads?[^()]*,[^()]*\b(?:T|L|S|seq\w*|t|n|-1|"
        r"len\w*|\w+_len|num_tokens)\b",
        r"(?:view|reshape)\s*\(.*(?:head|\bh\b|\bH\b)",
        r"view|reshape",
    ),
    "merge-no-transpose": (
        r"(?:out\w*|y|context|ctx|z|x|o|attn_out\w*|result\w*|concat\w*|merged\w*|res|attn\w*)"
        r"\s*=.*(?:view|reshape)\s*\((?!.*(?:head_dim|d_k|,\s*\w*h\w*,\s*))",
        r"return.*(?:view|reshape)",
        r"(?:view|reshape)\s*\(",
    ),
    "mask-head-order": (r"mask.*(?:repeat|tile|expand|cat)|(?:repeat|tile).*mask", _MASKING),
    "output-projection-missing": (r"return\b(?!.*\bfor\b)",),
    "projection-shared": (
        r"Linear\(\s*(?:self\.)?(?:head_dim|d_k|d_head|head_size|dim_head|dk|\w*head\w*)\s*,"
        r"\s*(?:self\.)?\w*(?:head|d_k|dk)",
        r"Linear\(",
        r"@",
    ),
    "projection-nonlinear": (
        r"(?:relu|gelu|tanh|sigmoid|silu|elu|leaky_relu|softplus|maximum|"
        r"ReLU|GELU|Tanh|activation|act)\b",
    ),
    "value-wrong-source": (r"\bv\w*\s*=(?!=)|values?\s*=(?!=)|V\s*=(?!=)", _PRODUCT),
    "key-wrong-source": (r"\bk\w*\s*=(?!=)|keys?\s*=(?!=)|K\s*=(?!=)", _PRODUCT),
    "query-key-swapped": (
        r"(?:scores?|energy|att\w*|wei\w*|logits|sim\w*|dots)\s*=.*(?:@|matmul|"
        r"einsum|bmm|\.dot\()",
        _PRODUCT,
    ),
    "kv-head-order": (
        r"\.repeat\(|tile\(|repeat_interleave|np\.repeat|expand|concatenate|"
        r"cat\(",
        r"%|\(.*//|einsum",
    ),
    "batch-as-sequence": (
        r"MultiheadAttention\(",
        r"(?:transpose|permute|swapaxes|view|reshape)"
        r"\(",
        _PRODUCT,
    ),
    "mask-inverted": (_MASKING, r"tri[lu]"),
    "mask-after-softmax": (_MASKING,),
    "mask-multiplied": (
        r"(?:scores?|energy|att\w*|wei\w*|logits)"
        r"\s*\*=?.*mask",
        r"masked_fill|where\(",
        _MASKING,
    ),
    "mask-too-weak": (r"-\s*(?:1e\d|1\d*|5\d*|2\d*)(?:\.0?)?\b", r"masked_fill|where\(", _MASKING),
    "mask-half-overflow": (
        r"-\s*\d+(?:\.\d*)?e\+?\d+|-\s*1e\d+|1e\d+|-\s*10{5,}|"
        r"['\"]-1e\d+['\"]|finfo|"
        r"-\s*\(?2\s*\*\*",
        r"masked_fill|where\(",
        _MASKING,
    ),
    "mask-nan": (r"inf", _MASKING),
    "masked-row": (
        r"masked_fill|where\(|inf\b|\[[^\]]*mask[^\]]*\]\s*=|"
        r"-1e\d+",
        _MASKING,
        _SOFTMAX,
    ),
    "mask-on-queries": (r"mask.*(?:unsqueeze|None|reshape|view|newaxis|expand_dims)", _MASKING),
    "mask-ignored": (r"masked_fill\b|where\(", r"mask"),
    "mask-added": (r"\+=?\s*.*(?:mask|tril|triu|tri\b)|-=?\s*.*mask", _MASKING),
    "causal-missing": (r"masked_fill|where\(|tril|triu|mask", _SOFTMAX),
    "causal-transposed": (r"tri[lu]|\.tri\(|>=|<=|arange|[<>]", r"mask"),
    "causal-off-by-one": (
        r"tri[lu]\(.*(?:diagonal|k\s*=|,)|diagonal|"
        r"\.tri\(",
        r"tri[lu]",
        r"[<>]=?|arange",
        r"mask",
    ),
    "causal-misaligned": (r"tri[lu]|\.tri\(|is_causal", r"arange|[<>]=?", r"mask"),
    "window-off-by-one": (r"window|\bw\b", r"tri[lu]", r"[<>]=?"),
    "dropout-in-eval": (
        r"F\.dropout|functional\.dropout|dropout_p|Dropout\(|dropout\(|bernoulli|"
        r"rand",
        r"drop",
    ),
    "dropout-no-rescale": (r"rand|bernoulli|binomial|\bkeep\b", r"drop"),
    "position-exponent-doubled": (r"\*\*|pow\(|10000|1e4|exp\(",),
    "position-cosine-shifted": (r"cos\(",),
    "position-integer": (
        r"//|astype\(.*int|int\(|dtype\s*=\s*(?:np\.|torch\.)?(?:int|long)|"
        r"\.long\(\)|zeros",
        r"/",
    ),
    "position-by-batch": (
        r"(?:pe|pos\w*|encoding|table|embed\w*)\w*\s*\[.*(?:size\(0\)|"
        r"shape\[0\]|\bB\b|batch)",
        r"(?:size\(0\)|shape\[0\]|\bB\b|"
        r"batch)",
        r"arange",
    ),
    "position-odd-width": (r"1::2|cos\(",),
    "rotary-pairing": (r"cat|stack|repeat|::2|chunk|concatenate", r"cos"),
    "rotary-axis": (r"arange|size\(|shape\[|unsqueeze|transpose", r"cos"),
    "rotary-offset": (r"arange|rotary|rope|apply_rot", r"cos"),
    "alibi-slopes": (r"\*\*|pow\(|exp2|slope",),
}


def line_of(source: Source, fault: str) -> int | None:
    """The number of the line on which a fault of this id stands, as near as reading can tell."""
    special = _SPECIAL.get(fault)
    if special is not None and (found := special(source)) is not None:
        return found
    avoid = r"^\s*(?:def|class|import|from)\b"
    if fault == "merge-no-transpose":
        avoid = r"\bheads?\b.*\bhead_dim\b|def |,\s*self\.(?:num_|n_)?heads?\s*,"
    elif fault == "dropout-no-rescale":
        avoid += r"|RandomState|default_rng|seed"
    elif fault.startswith("scale-"):
        avoid += r"|Linear\(|//|randn|init|assert"
    return source.line(*PATTERNS.get(fault, ()), avoid=avoid)


def _softmax_over(source: Source) -> int | None:
    """The softmax that is not over the last axis, if the text shows one."""
    for n, text in source.code:
        if re.match(r"\s*(?:def|class|import|from)\b", text):
            continue
        if re.search(r"softmax\s*\(|Softmax\s*\(|\.sum\(|logsumexp\(", text):
            axis = re.search(r"(?:dim|axis)\s*=\s*(-?\d+|\([^)]*\)|None)|,\s*(-?\d+)\s*\)", text)
            value = next((g for g in axis.groups() if g), None) if axis else None
            if value not in ("-1", "3"):
                return n
    return None


def _after(source: Source) -> int | None:
    soft = source.line(r"softmax\s*\(|exp\(", avoid=r"^\s*(?:def|import|from)\b|Softmax\(")
    if soft is None:
        return None
    order = [n for n, text in source.code if re.search(r"mask|tri[lu]|where\(", text) and n > soft]
    return order[0] if order else None


def _nonlinear(source: Source) -> int | None:
    pattern = (
        r"(?:relu|gelu|tanh|sigmoid|silu|elu|leaky_relu|softplus|maximum|ReLU|GELU|Tanh|Sigmoid)"
    )
    for n, text in source.code:
        if re.search(pattern, text) and not re.match(r"\s*(?:def|class|import|from)\b", text):
            return n
    return None


def _ignored(source: Source) -> int | None:
    for n, text in source.code:
        if re.match(r"\s*[\w.]+\.masked_fill\(", text):  # its result is dropped
            return n
    return None


_SPECIAL = {
    "softmax-axis": _softmax_over,
    "softmax-heads": _softmax_over,
    "mask-after-softmax": _after,
    "projection-nonlinear": _nonlinear,
    "mask-ignored": _ignored,
    "causal-missing": _ignored,
}

_WIDTH = r"(?:self\.)?(?:head_dim|d_k|dk|d_head|head_size|dim_head|depth|d)"
_NAMES = (
    r"(?:self\.|config\.|cfg\.)?(?:embed_size|d_model|n_embd|embed_dim|hidden_size|dim|emb_dim|"
    r"embedding_dim|C|model_dim|num_heads|n_heads|heads|h|seq_len|T|S|L)"
)


def mend_of(source: Source, fault: str, line: int | None) -> str | None:
    """The line as it should read, where a change of a few letters mends it; None otherwise."""
    text = source.at(line)
    if not text:
        return None
    width = _width_name(source)
    changes: dict[str, list[tuple[str, str]]] = {
        "scale-model-dim": [
            (rf"(sqrt\(\s*(?:torch\.tensor\()?){_NAMES}\b", rf"\g<1>{width}"),
            (rf"{_NAMES}(\s*\*\*)", rf"{width}\1"),
        ],
        "scale-wrong-size": [
            (rf"(sqrt\(\s*){_NAMES}\b", rf"\g<1>{width}"),
            (rf"{_NAMES}(\s*\*\*)", rf"{width}\1"),
        ],
        "scale-no-root": [
            (
                r"/\s*(\(?[\w.\[\]\-()]+?\)?)"
                r"\s*$",
                r"/ \1 ** 0.5",
            ),
            (r"/\s*([\w.]+)", r"/ \1 ** 0.5"),
        ],
        "scale-precedence": [
            (r"\*\*\s*1\s*/\s*2", "** (1 / 2)"),
            (r"\*\*\s*-\s*1\s*/\s*2", "** (-1 / 2)"),
        ],
        "scale-inverted": [(r"\*\s*((?:\w+\.)?sqrt)", r"/ \1"), (r"\*\*\s*0?\.5", "** -0.5")],
        "softmax-axis": [
            (
                r"((?:dim|axis)\s*=\s*)"
                r"-?\d+",
                r"\g<1>-1",
            ),
            (r"(softmax\([^,]+,\s*)-?\d+", r"\g<1>-1"),
        ],
        "softmax-heads": [
            (
                r"((?:dim|axis)\s*=\s*)(?:-?\d+|None|\([^)]*\)"
                r")",
                r"\g<1>-1",
            ),
            (r"(softmax\([^,]+,\s*)-?\d+", r"\g<1>-1"),
        ],
        "softmax-single": [(r"((?:dim|axis)\s*=\s*)-?\d+", r"\g<1>-1")],
        "mask-inverted": [
            (r"==\s*0", "== 1"),
            (r"==\s*1", "== 0"),
            (r"~\s*(\w*mask)", r"\1"),
            (r"(masked_fill\()(\w*mask)\b", r"\1~\2"),
        ],
        "mask-too-weak": [(r"-\s*\d+(?:\.\d*)?(?:e\+?\d+)?", 'float("-inf")')],
        "mask-half-overflow": [
            (
                r"-\s*\d+(?:\.\d*)?e\+?\d+|"
                r"float\(['\"]-1e\d+['\"]\)",
                'float("-inf")',
            )
        ],
        "mask-ignored": [(r"^([\w.]+)\.masked_fill\(", r"\1 = \1.masked_fill(")],
        "causal-missing": [(r"^([\w.]+)\.masked_fill\(", r"\1 = \1.masked_fill(")],
        "causal-transposed": [(r"\btriu\b", "tril")],
        "position-exponent-doubled": [(r"2\s*\*\s*\(?i\)?", "i")],
        "kv-head-order": [
            (
                r"\.repeat\(1,\s*([^,]+),\s*1,"
                r"\s*1\)",
                r".repeat_interleave(\1, "
                r"dim=1)",
            ),
            (r"np\.tile\(([^,]+),.*\)$", r"np.repeat(\1, groups, axis=1)"),
        ],
        "dropout-in-eval": [(r"(F\.dropout\([^)]*)\)", r"\1, training=self.training)")],
    }
    for pattern, replacement in changes.get(fault, []):
        mended = re.sub(pattern, replacement, text, count=1)
        if mended != text:
            return mended
    return None


def _width_name(source: Source) -> str:
    """What the code calls the width of one head, in words that hold where scores are made."""
    widths = ("head_dim", "d_k", "head_size", "d_head", "dim_head", "hs", "dk")
    for name in widths:
        if re.search(rf"\bself\.{name}\b", source.joined):
            return f"self.{name}"
    for name in widths:  # a plain name counts where it is made, not where a constructor takes it
        if re.search(rf"^\s*(?:\w+,\s*)*{name}\b[\w\s,]*=(?!=)", source.joined, re.MULTILINE):
            return name
    for pattern in (r"\b([qQ]|quer(?:y|ies))\b", r"\b([kK]|keys?)\b"):
        match = re.search(pattern, source.joined)
        if match:
            return f"{match.group(1)}.shape[-1]"
    return "head_dim"
