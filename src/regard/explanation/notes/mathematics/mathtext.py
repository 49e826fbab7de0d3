"""Mathematics as people write it, LaTeX, Unicode and NumPy, brought to one plain spelling."""

from __future__ import annotations

import re

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "eps", "η": "eta", "θ": "theta",
    "λ": "lambda", "μ": "mu", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega",
    "Σ": "Sum", "Δ": "Delta",
}  # fmt: skip
GREEK = {ord(letter): name for letter, name in _GREEK.items()}
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉ᵢⱼₖₙ", "0123456789ijkn")
FUNCTIONS = (
    "softmax", "exp", "sqrt", "sin", "cos", "tanh", "log", "ln", "log2", "log10", "sum", "mean", "max", "min",
    "var", "std", "abs", "norm", "dot", "PE", "concat", "round",
    "sigmoid", "relu", "layernorm", "tril", "triu", "ones", "zeros", "eye", "arange",
)  # fmt: skip
_FONTS = "mathrm|operatorname|text|mathbf|boldsymbol|vec|mathit"
_PLAIN = (
    ("−", "-"), ("–", "-"), ("·", " * "), ("⋅", " * "), ("∙", " * "), ("×", " * "), ("÷", "/"),
    ("≈", "="), ("≃", "="), ("（", "("), ("）", ")"), ("，", ", "), ("＝", "="), ("**", "^"),
    ("\\cdot", " * "), ("\\times", " * "), ("\\approx", "="), ("\\left", ""), ("\\right", ""),
    ("\\quad", " "), ("\\,", " "), ("\\;", " "), ("\\!", ""), ("\\pi", "pi"), ("π", "pi"),
    ("\\lvert", "|"), ("\\rvert", "|"), ("\\top", "T"), ("ᵀ", "^T"), ("\\{", "["), ("\\}", "]"),
    ("\\infty", "inf"), ("∞", "inf"), ("~", " ~ "),
)  # fmt: skip


def plain(text: str) -> str:
    r"""``text`` with every mathematical sign in its plain spelling.

    >>> plain(r"\frac{1}{\sqrt{2}} \approx 0.707")
    '((1)/(sqrt(2))) = 0.707'
    >>> plain("x₁·x₂ᵀ = √64"), plain("4nd²")
    ('x1 * x2^T = sqrt(64)', '4nd^2')
    """
    text = re.sub(r"\\\\(?=\s+(?!&?\s*[=≈&]))", " ; ", _matrices(text))
    text = re.sub(
        r"\\(?:mathrm|operatorname|text(?:bf|it|rm|sf|tt)?|emph|mathsf|mathbf|boldsymbol|vec|mathit)\s*\{([^{}]*)\}",
        r"\1",
        text,
    )
    for _ in range(4):  # from the inside out
        text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))", text)
        text = re.sub(r"\\sqrt\s*\{([^{}]*)\}", r"sqrt(\1)", text)
        text = re.sub(r"\^\{([^{}]*)\}", r"^(\1)", text)
        text = re.sub(r"_\{([^{}]*)\}", r"_\1", text)
    text = re.sub(r"([A-Za-z])\^\(\((\d)\)\)", r"\1_\2", text.replace("\\%", "%"))
    for sign, other in _PLAIN:
        text = text.replace(sign, other)
    text = re.sub(r"‖([^‖]+)‖", r"|\1|", text)
    text = re.sub(r"(?<=\d)\s*(?:°|degrees\b|\^\s*circ\b)", "*pi/180", text)
    text = re.sub(r"\b(sin|cos) (-?\d+(?:\.\d+)?\*pi/180)", r"\1(\2)", text)
    text = re.sub(r"\b(?:Layer ?Norm|LN)(?=\()", "layernorm", text)
    text = re.sub(r"\bReLU(?=\()", "relu", text)
    text = re.sub(
        r"\b1 ?\+ ?2 ?\+(?: ?3 ?\+)? ?(?:…|⋯|\.\.\.|\\[cl]?dots) ?\+ ?(\d+)", r"(\1*(\1+1)/2)", text
    )
    text = re.sub(r"\^\((?:T|t)\)", "^T", text)
    text = re.sub(r"\^T(?=[A-Z](?![a-z]))", "^T ", text)
    text = re.sub(r"\blog_(2|10)\b", r" log\1", text)
    text = re.sub(r"\\sqrt\s*(\w+)", r"sqrt(\1)", text)
    text = re.sub(r"根号(?:下)?\s*(?=[\w(])", "√", text)
    text = re.sub(r"√\s*(\d+(?:\.\d+)?|[A-Za-z]\w*)", r"sqrt(\1)", text).replace("√(", "sqrt(")
    text = re.sub(r"([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", lambda m: "^" + m[1].translate(SUPERSCRIPTS), text)
    text = text.translate(SUBSCRIPTS).translate(GREEK)
    text = re.sub(r"\b([xqkvoXQKVO])_(\d+)\b", r"\1\2", text)
    text = re.sub(r"\\([a-zA-Z]+)", r" \1", text)
    text = re.sub(r"\b(sin|cos|tanh|exp|ln)(?=\d)", r"\1 ", text)
    text = re.sub(r"\b(?:np|numpy|torch|math|F|nn|functional|linalg)\.(?=\w)", "", text)
    text = re.sub(r"(\d)\s*([KMGT])iB\b", lambda m: f"{m[1]}*1024.0^{'KMGT'.index(m[2]) + 1}", text)
    text = re.sub(r"(\d)\s*(?:bytes\b|字节)", r"\1", text)
    return re.sub(r" {2,}", " ", text)


def _matrices(text: str) -> str:
    """LaTeX's matrices as lists of lists; a single row or column is a list."""

    def lists(found: re.Match[str]) -> str:
        rows = [row for row in re.split(r"\\\\", found[1]) if row.strip()]
        cells = [[cell.strip() for cell in row.split("&")] for row in rows]
        if len(cells) == 1:
            return f"[{', '.join(cells[0])}]"
        if all(len(row) == 1 for row in cells):
            return f"[{', '.join(row[0] for row in cells)}]"
        return "[" + ", ".join(f"[{', '.join(row)}]" for row in cells) + "]"

    return re.sub(r"\\begin\{[pbv]?matrix\}(.*?)\\end\{[pbv]?matrix\}", lists, text, flags=re.S)
