"""Fact-checks: wrong claims are named with the right value, and nothing right raises an alarm."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard._words import LANGUAGES
from regard.cli import main
from regard.explanation.notes import fact_check
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.parsing import NotUnderstood, Parser

NOTES = sorted((Path(__file__).parent / "notes").glob("*.md"))
WRONG = re.compile(r"\s*<!-- wrong: (.*?) -->")


def read(file: Path) -> tuple[str, dict[int, str]]:
    """A note without its marks, and the right value of each line that holds a wrong claim."""
    lines = file.read_text(encoding="utf-8").splitlines()
    marks = {i: found[1] for i, line in enumerate(lines, 1) if (found := WRONG.search(line))}
    return "\n".join(WRONG.sub("", line) for line in lines), marks


def test_there_are_ten_notes_with_enough_claims():
    assert len(NOTES) >= 10
    checks = [fact_check(read(file)[0]) for file in NOTES]
    assert sum(len(read(file)[1]) for file in NOTES) >= 24
    assert sum(len(check.of("right")) for check in checks) >= 100


@pytest.mark.parametrize("file", NOTES, ids=lambda file: file.stem)
def test_every_wrong_claim_is_named_with_the_right_value_and_no_other(file):
    note, marks = read(file)
    check = fact_check(note)
    named = {v.line: v.values.get("right", "") for v in check.of("wrong")}
    assert set(named) == set(marks)
    for line, right in marks.items():
        assert right in named[line], (line, named[line])


RIGHT = """
The dot product of two 64-dimensional vectors has variance 64.
So the scores have standard deviation √d_k = √64 = 8.
The variance grows linearly with the dimension, so the standard deviation grows with √d.
We want the variance of the scores to be 1.
A linear projection gives Q = X W_Q.
The cost of attention is quadratic in the sequence length, that is O(n²).
Flash attention needs O(n) memory.
A sliding window of width w costs O(n w).
The projections cost O(n d²).
In a transformer with d_model = 512 and h = 8, d_k = d_v = 512/8 = 64.
The softmax is applied to each row, so each row sums to 1.
The columns need not sum to 1.
It is a common mistake to say that self-attention means Q = K = V.
It is often said that the variance is √64 = 8, but this is wrong: it is 64.
RNNs cannot process positions in parallel.
Positions must be added because attention itself does not know the order of words.
A causal mask hides the future: position i attends to positions j ≤ i.
Adding a constant to all scores does not change the softmax.
exp(-inf) = 0
3 × 3 = 9 scores
X has shape (3, 2) and W has shape (2, 4), so XW has shape (3, 4).
1.30 + 1.26 + 1.08 = 3.64
4 × 512 × 512 = 1,048,576
In 2017 the paper "Attention Is All You Need" appeared.
Let n = 10 and d = 64. Then n²d = 6400 and nd² = 40960.
The output o1 = 0.36 v1 + 0.35 v2 + 0.30 v3.
x = [1, 2, 3], so |x|² = 14
a = [1, 2], b = [3, 4]: a·b = 1·3 + 2·4 = 11
sin(1/100) = 0.01
D(X+Y) = D(X) + D(Y) for independent X and Y.
Each column of W_Q holds the weights of one number of the query.
Scores are divided by √d_k, not by d_k.
两个 64 维向量的点积方差为 64，标准差为 8。
有人说自注意力就是 Q=K=V，这是错误的。
线性层把 X 映射为 Q。
温度越高，分布越平缓。
序列长度翻倍，投影的计算量也翻倍。
向量 a = [1, 0]，b = [0, 1]，a·b = 0
为什么自注意力是线性的？
线性注意力的复杂度对序列长度是线性的。
Query 1 with key 3 gives 0.08.
Forgetting the 2 gives 3 ÷ 10 = 0.3 instead.
Adam with β1 = 0.9, β2 = 0.98.
We ask whether attention is linear.
0.36*[0.1, 0.5] + 0.35*[0.3, 0.4] + 0.30*[0.8, 0.0] = [0.378, 0.316]
A = [[0.36, 0.35, 0.30]] and X = [[0.1, 0.5], [0.3, 0.4], [0.8, 0]]. So A X = [[0.378, 0.316]].
The standard deviation of the dot product is √64 = 8.
The variance of the dot product is large.
D(XY) is not D(X)D(Y) - E(X)E(Y).
D(XY) = something else
Doubling the sequence length does not double the cost of attention; it quadruples it.
Doubling the sequence length doubles the cost of the projections.
The attention matrix does not have shape n × d.
The softmax is not the only non-linearity, for X is in the scores too.
The path length in an RNN is O(n), in attention it is O(1).
At n = 2d the projections and the attention cost the same.
The two lines meet when n = d.
Unlike attention, RNNs do not run in parallel; unlike RNNs, attention runs in parallel.
Linear attention does not scale quadratically: its cost is linear in the sequence length.
Without softmax the output is still linear in V.
The dot product of a and b is 3.
For 5 tokens the attention matrix is 5 × 5.
The attention matrix has shape n × n.
Attention(Q, K, V) = softmax(QKᵀ/√d_k)V
没有 softmax，X Xᵀ X 对 X 是三次的，不是线性的。
Q, K and V have the same shape in self-attention.
When d_k = 64, dividing by 8 keeps the variance of the scores at 1.
d = 64    σ = 7.91    √d = 8
注意力是否是线性的，下文再说。
一共 12 × 64 = 768 维
It is often said that attention is linear. It is not.
Some claim that RoPE turns the values. That is wrong.
Applying softmax to [2, 4, 4] gives [0.0634, 0.4683, 0.4683].
A^2 = [[7, 10], [15, 22]] for A = [[1, 2], [3, 4]].
The base has d_model = 512. The big one has d_model = 1024. √d_model = √512 = 22.63.
96 KiB / 16 = 6 KiB
2 × 1024² × 768 = 1.61 × 10^9
If the components have variance 4, the dot product of 64 terms has variance 64 · 4 · 4 = 1024.
除以 √d_k 后方差变为 1，标准差也是 1。
""".strip().splitlines()
SAID_OTHERWISE = {
    "The standard deviation of the dot product of 64-dimensional vectors is 64.": "8",
    "q·k has variance √d_k.": "d",
    "When d_k = 100, the dot product has a variance of 10.": "100",
    "√d_k is the variance of the dot product.": "σ = √d",
    "All the steps up to the softmax are linear.": "3",
    "In self-attention the query, key and value are the same.": "W_Q",
    "The complexity of self-attention is O(n log n).": "O(n²d)",
    "Attention memory is O(n).": "O(n²)",
    "We divide the dot product by the dimension d_k.": "√d_k",
    "The softmax is applied along the first axis.": "Σⱼ",
    "With 12 heads and d_model = 768 each head has dimension 96.": "64",
    "D(XY) = D(X)D(Y)": "D(X)E(Y)²",
    "softmax([1,2]) = [0.27, 0.37]": "0.731",
    "a = [1, 2], b = [3, 4]: a·b = 12": "11",
    "x1 = [1, 2] and x2 = [3, 4]. The dot product of x1 and x2 is 10.": "11",
    "When the sequence length doubles, the attention matrix doubles.": "4",
    "(2 × 3)(3 × 4) = (3 × 3)": "2 × 4",
    "The maximum path length in self-attention is O(n).": "O(1)",
    "Embeddings are divided by √d_model.": "√d_model",
    "Subtracting the maximum changes the result of the softmax.": "softmax(s)",
    "LayerNorm normalises over the batch.": "d",
    "Softmax is a linear function.": "exp",
    "注意力是线性运算。": "3",
    "点积的标准差为 d_k。": "√d",
    "点积除以 d_k。": "√d_k",
    "d_model = 768，12 个头，每头 96 维": "64",
    "层归一化沿 batch 进行。": "d",
    "嵌入要除以 √d_model。": "√d_model",
    "减去最大值会改变 softmax 的结果。": "softmax(s)",
    "100 的平方根是 12。": "10",
    "Self-attention scales linearly with the sequence length.": "O(n²d)",
    "dot([1, 2], [3, 4]) = 12": "11",
    "0.36*0.1 + 0.35*0.3 + 0.30*0.8 = 0.481": "0.381",
    "0.25*0.35 = 0.0885": "0.0875",
    "点积的方差为 √64 = 8。": "64",
    "The variance of the dot product is √256 = 16.": "256",
    "So the variance of q·k is 8 for d = 64.": "64",
    "Variance of the scores: 8 (for d_k = 64).": "64",
    "Without the softmax, self-attention would be a linear map of X.": "3",
    "Q, K and V are identical in self-attention.": "W_Q",
    "The attention matrix has shape n × d.": "n × n",
    "Attention(Q,K,V) = softmax(QK^T / d_k) V": "√d_k",
    "Attention(Q,K,V) = softmax(QK^T)V / √d_k": "softmax(QKᵀ / √d_k) V",
    "64维向量点积的方差为根号64，即8。": "64",
    "没有 softmax，自注意力就是线性的。": "3",
    "注意力矩阵的形状为 n×d。": "n × n",
    "因为自注意力中 Q=K=V，所以分数矩阵对称。": "W_Q",
    "softmax 之前的所有运算都是线性的，只有 softmax 是非线性的。": "3",
    "D(XY) = D(X)D(Y) − E(X)E(Y)，因此点积的方差可求。": "E(Y)²",
    "相加得 [0.6, 0.7] + [0.03, 1.0] = [0.895, 1.655]。": "0.63",
    "Dividing the scores by d_k keeps their variance at 1.": "d/(d_k²)",
    "The peak of 4096 × 96 KiB = 348 MiB is reached.": "384 MiB",
    "cos([1, 2], [2, 1]) = 0.9": "0.8",
    "[1, 2, 6] 的均值为 4。": "3",
    "The variance of [1, 2, 6] is 5.": "4.6667",
    "In a grouped-query layer, 24 query heads and 8 KV heads make the cache 4 times smaller.": "3",
    "Lowering the temperature makes the weights flatter.": "τ → 0",
    "(2, 8, 10, 64) @ (2, 8, 64, 10) = (2, 8, 64, 10)": "10 × 10",
    "[0.6, 0.7] + [0.03, 1.0] = [0.895, 1.655]": "0.63",
}


@pytest.mark.parametrize("claim", RIGHT)
def test_what_is_right_raises_no_alarm(claim):
    assert fact_check(claim).of("wrong") == []


@pytest.mark.parametrize("claim", SAID_OTHERWISE)
def test_what_is_wrong_is_named_with_the_right_value(claim):
    (verdict,) = fact_check(claim).of("wrong")
    assert SAID_OTHERWISE[claim] in verdict.values["right"]
    for lang in LANGUAGES:
        assert verdict.values["right"] in verdict.say(lang)


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_no_text_makes_it_stumble(seed):
    random = np.random.default_rng(seed)
    lines = [line for file in NOTES for line in read(file)[0].splitlines()]
    text = "\n".join(random.choice(lines, 4))
    for _ in range(6):
        place = int(random.integers(len(text) + 1))
        sign = str(random.choice(list("()[]{}|=+-*/^_,. 0123456789eXQKVTxd√²ᵀ×·≈$`\\是为")))
        text = text[:place] + sign * int(random.integers(1, 3)) + text[place + 1 :]
    check = fact_check(text)
    assert all(verdict.say("zh") for verdict in check.verdicts)


def test_our_own_documentation_raises_no_alarm():
    root = Path(__file__).resolve().parents[2]
    # These show faults: `regard check` and its pages; the READMEs show one in a block of code.
    faulty = [root / "docs" / "check.md", *root.glob("docs/faults/*.md")]
    shown = {("README.md", "mine: softmax-axis"), ("README.zh-CN.md", "mine: softmax-axis")}
    pages = {*root.glob("*.md"), *root.glob("docs/**/*.md")} - {*faulty}
    assert len(pages) > 20
    assert fact_check(faulty[0].read_text(encoding="utf-8")).of("wrong")
    wrong = {
        (page.name, verdict.claim)
        for page in pages
        for verdict in fact_check(page.read_text(encoding="utf-8")).of("wrong")
    }
    assert wrong == shown


def test_a_formula_without_means_is_right_where_they_are_zero():
    formula = "D(XY) = D(X)D(Y)."
    assert fact_check(formula).of("wrong")
    assert fact_check(f"Let X and Y have mean 0.\n\n{formula}").of("right")
    said = "Let X and Y have mean 0.\n\nD(XY) = D(X)D(Y) - E(X)E(Y)."
    assert fact_check(said).of("wrong")


def test_what_cannot_be_worked_out_is_said_to_be_so():
    (verdict,) = fact_check("Then foo·bar1 + 2 = 0.37.").verdicts
    assert verdict.status == "unknown"
    for lang in LANGUAGES:
        assert "1" in fact_check("Then foo·bar1 + 2 = 0.37.").text(lang)


def test_code_is_read_and_not_run(tmp_path):
    mark = tmp_path / "mark"
    note = f"```python\nopen({str(mark)!r}, 'w')\nx = 1 + 1  # 3\n```\n"
    (verdict,) = fact_check(note).of("wrong")
    assert (verdict.line, verdict.values["right"]) == (3, "2")
    assert not mark.exists()


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    y = x + 1  # 7\n    return y\n",
        "y = load()\nprint(y)\n",
        "x = [1, 2]\nx = other(x)\nprint(x)  # [3, 4]\n",
        "x ==",
    ],
)
def test_code_that_is_not_understood_raises_no_alarm(code):
    assert fact_check(f"```python\n{code}```\n").of("wrong") == []


def attention_note() -> str:
    return "```python\nimport numpy as np\n\ndef attention(q, k, v):\n    return q\n```\n"


def test_attention_in_code_is_left_to_the_checker(monkeypatch):
    from types import SimpleNamespace

    from regard.diagnosis import check as door

    seen = []

    def check(subject, lang):
        seen.append(subject)
        fault = SimpleNamespace(id="value-missing", line=3, says="it is q", mend="w @ v")
        return SimpleNamespace(verdict="wrong", faults=(fault,))

    monkeypatch.setattr(door, "check", check)
    (verdict,) = fact_check(attention_note()).of("wrong")
    assert (verdict.line, verdict.claim) == (4, "attention: value-missing")
    assert seen[0].endswith("block.py:attention")
    for outcome, status in (("right", "right"), ("unknown", "unknown")):
        report = SimpleNamespace(verdict=outcome, faults=())
        monkeypatch.setattr(door, "check", lambda subject, lang, report=report: report)
        assert fact_check(attention_note()).verdicts[0].status == status


# Algebra


def worked_out(text: str, **names) -> float:
    known = Names({name: np.asarray(array, dtype=float) for name, array in names.items()})
    return value(Parser(text).whole(), known).tolist()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("2 + 3 * 4^2 / 8", 8),
        ("-2^2", -4),
        ("4nd^2", 4 * 3 * 4),
        ("x * x", 5),
        ("x @ x", 5),
        ("2x", [2, 4]),
        ("XX^T", [[5, 11], [11, 25]]),
        ("X.T", [[1, 3], [2, 4]]),
        ("sum(X, axis=0)", [4, 6]),
        ("max(1, 3, 2)", 3),
        ("|x|^2", 5),
        ("softmax(X * 0)", [[0.5, 0.5], [0.5, 0.5]]),
        ("softmax(X * 0, dim=0)", [[0.5, 0.5], [0.5, 0.5]]),
        ("sqrt(16) + ln(1) + e^0", 5),
        ("[1 2 -3]", [1, 2, -3]),
        ("1,000 + 50%", 1000.5),
        ("PE(0, 4)", [0, 1, 0, 1]),
    ],
)
def test_expressions(text, result):
    found = worked_out(text, n=3, d=2, x=[1, 2], X=[[1, 2], [3, 4]])
    assert np.allclose(found, result)


@pytest.mark.parametrize(
    "text", ["", "1 +", "f(2)", "unknown", "1/0", "[1, 2] + [1, 2, 3]", "2 $", "9^9999"]
)
def test_what_is_no_expression(text):
    with pytest.raises(NotUnderstood):
        worked_out(text)


# At the command line


def test_a_note_at_the_command_line(capsys, tmp_path):
    note = tmp_path / "note.md"
    note.write_text("x1 = [0.1, 0.5]\n\nx1·x1 = 0.62\n", encoding="utf-8")
    assert main(["explain", "--fact-check", str(note), "--lang", "zh"]) == 1
    assert "应为 0.26" in capsys.readouterr().out
    out = tmp_path / "out.json"
    assert main(["explain", "--fact-check", str(note), "--to", str(out)]) == 1
    (claim,) = json.loads(out.read_text(encoding="utf-8"))["claims"]
    assert (claim["line"], claim["status"], claim["right"]) == (3, "wrong", "0.26")
    note.write_text("√64 = 8\n", encoding="utf-8")
    assert main(["explain", "--fact-check", str(note), "--lang", "en"]) == 0
    assert "1 right, 0 wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["no.md"], "there is no file"),
        (["."], "could not be read"),
        (["note.md", "--to", "x.pdf"], "saved as .html, .md or .json"),
        (["note.md", "--to", "./note.md"], "would be overwritten"),
    ],
)
def test_a_note_that_cannot_be_read(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    Path("note.md").write_text("1 + 1 = 2")
    assert main(["explain", "--fact-check", *args, "--lang", "en"]) == 2
    assert words in capsys.readouterr().err


CODE = """
```python
import torch
x = [
  [1, 0],  # first
  [0, 2],
]
x = torch.tensor(x, dtype=torch.float32)
w = torch.tensor([[1, 2], [3, 4]])
keys = x @ w
print(keys)
# tensor([[1., 2.],
#         [6., 8.]])
scores = keys @ keys.T
# tensor([[  5.,  22.],
#         [ 22., 101.]])
```
"""


def test_what_a_program_printed_is_worked_out():
    check = fact_check(CODE)
    assert [v.line for v in check.of("right")] == [12]
    (wrong,) = check.of("wrong")
    assert (wrong.line, wrong.values["right"]) == (16, "[22, 100]")


def test_rows_that_agree_by_chance_say_nothing():
    vectors = "x1 = [0.1, 0.5], x2 = [0.3, 0.4], x3 = [0.8, 0]\n\n"
    chance = "| a | b | c |\n|---|---|---|\n| 0.26 | 0.23 | 0.99 |\n"
    assert fact_check(vectors + chance).of("wrong") == []
    beside = chance + "| 0.08 | 0.24 | 0.64 |\n"
    assert len(fact_check(vectors + beside).of("wrong")) == 1
