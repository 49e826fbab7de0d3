"""The mechanisms side by side: what each computes, what it costs, and what it needs.

Formulas and sources are read from the modules' own docstrings, so the table cannot say otherwise.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from regard._words import Language, say
from regard.nn.attention import MultiHeadAttention, ScaledDotProductAttention
from regard.nn.linear import LinearAttention
from regard.nn.scored import (
    AdditiveAttention,
    HardAttention,
    LocalAttention,
    MultiplicativeAttention,
    TopKAttention,
)


@dataclass(frozen=True)
class Mechanism:
    """One row: for n tokens of width d, windows of w, k kept keys, kernels of c."""

    name: str
    module: Any
    """None for what is no attention, and stands beside for comparison."""
    time: str
    memory: str
    """Beside inputs and outputs, as regard computes it."""
    path: str
    """How many steps lie between two tokens that are n apart."""
    parallel: bool
    """Whether all tokens can be computed at once."""
    example: str
    """A file of examples/ that anyone can run."""

    @property
    def formula(self) -> str:
        """As the module's docstring has it."""
        if self.module is None:
            return {"recurrent": "h_t = f(h_{t−1}, x_t)", "convolution": "y_t = Σ_c W_c x_{t+c}"}[
                self.name
            ]
        doc = inspect.getdoc(self.module) or ""
        return inspect.cleandoc(doc.split("::\n\n", 1)[1].split("\n\n", 1)[0])

    @property
    def source(self) -> str:
        """The first of the docstring's."""
        if self.module is None:
            return "Vaswani et al. 2017, table 1"
        doc = inspect.getdoc(self.module) or ""
        found = re.search(r"Source: (.+?)(?:;|\.$|\.\n|\n\n|$)", doc, re.DOTALL)
        return " ".join(found[1].split()) if found else ""

    def needs(self, lang: Language) -> str:
        """What it asks of the model."""
        return say(f"mechanisms.{self.name}-needs", lang)

    def used(self, lang: Language) -> str:
        """Who uses it."""
        return say(f"mechanisms.{self.name}-used", lang)


MECHANISMS = (
    Mechanism(
        "dot-product", ScaledDotProductAttention, "n² d", "n", "1", True, "scaled_dot_product.py"
    ),
    Mechanism("multi-head", MultiHeadAttention, "n² d + n d²", "n d", "1", True, "multi_head.py"),
    Mechanism("additive", AdditiveAttention, "n² d", "n²", "1", True, "additive.py"),
    Mechanism(
        "multiplicative", MultiplicativeAttention, "n² d", "n²", "1", True, "multiplicative.py"
    ),
    Mechanism("local", LocalAttention, "n² d", "n²", "n / w", True, "local.py"),
    Mechanism("top-k", TopKAttention, "n² d", "n²", "1", True, "top_k.py"),
    Mechanism("hard", HardAttention, "n² d", "n²", "1", True, "hard.py"),
    Mechanism("linear", LinearAttention, "n d²", "d²", "1", True, "linear.py"),
    Mechanism("recurrent", None, "n d²", "d", "n", False, "recurrent.py"),
    Mechanism("convolution", None, "c n d²", "n d", "n / c", True, "convolution.py"),
)
