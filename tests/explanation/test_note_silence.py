"""What a note's words do not bind is unknown: nothing right is called wrong."""

import pytest

from regard.explanation.notes import fact_check


def block(*lines: str, kind: str = "python") -> str:
    return "\n".join([f"```{kind}", *lines, "```", ""])


SILENT = {
    "an object that a call which is not followed has changed": block(
        "class Table:",
        "    def __init__(self):",
        "        self.words = {}",
        "t = Table()",
        "t.fill_from(open('book.txt'))",
        "print(len(t.words))",
    )
    + block("812", kind=""),
    "a list that was handed to a function of another file": block(
        "from helpers import fill", "found = []", "fill(found)", "print(len(found))"
    )
    + block("3", kind=""),
    "an array and its view": block(
        "a = np.array([[1, 2], [3, 4]])", "b = torch.from_numpy(a)", "a[0, 0] = 9", "print(b)"
    )
    + block("tensor([[9, 2],", "        [3, 4]])", kind=""),
    "a part of an array changed in place": block(
        "a = torch.tensor([1, 2, 3])", "b = a[:2]", "a[0] += 5", "print(b)  # [6 2]"
    ),
    "the number of a step": block("x = 3", "y = x + 4  # (1)", "z = 2 * y  # (2)"),
    "an amount in minutes": block("limit = 5 * 60  # 5 minutes"),
    "a constant that is shown, and a later call": block("2")
    + block("model = build(classes=3)", kind=""),
    "a law of an orthogonal matrix": "W = [[1, 2], [0, 1]]. An orthogonal matrix has W^T = W^{-1}.",
    "a matrix written anew": (
        "Take A = [[3, 1], [1, 3]]. As a second example, take A = [[3, 1], [0, 3]]."
    ),
    "a function of linear algebra": (
        r"With $B = [[1, 2], [2, 4]]$ we have $\textrm{rank}(B) = 1$."
    ),
    "bits": r"$-\log(1/2^3) = 3$ bits.",
    "a factorial": "The number of orders is 6 = 3 * 2 = 3!, as three things have.",
    "a price in round numbers": "So it costs about 184,320 / 8 * 30 = 690,000 dollars.",
    "less random": "Lower temperatures make the samples less random.",
    "RoPE as a part": "### Add RoPE to the attention module",
    "weights of a neuron": "The activation may drop (if the weight is negative).",
    "the loss of a softmax": "The softmax loss is the negative log probability of the class.",
    "multiple is no product": "It has multiple layers with residual connections.",
    "what a cache saves": "A KV cache lowers the cost of a step from O(n^2) to O(n).",
    "a model beside another": (
        "Unlike BERT, which reads both sides, GPT writes. It was built to be autoregressive."
    ),
    "what is like BERT": "这一步和 BERT 类似，只是加了掩码，每个词只能看到它之前的词。",
    "training beside ALiBi": "采用 ALiBi 的模型能处理比训练时更长的序列。",
    "the halves of an encoding": (
        "The sines and cosines are concatenated to form each positional encoding."
    ),
    "what a reader sees": "You can see everything inside the decoder of GPT in the figure.",
    "nothing times the logarithm of nothing": r"We set $x = 0$ and agree that $x \log_2 x = 0$.",
    "a name with a hyphen": "k = 1 is greedy. Set `top-k = 3` for three words.",
    "a choice and another": block("SIZE = 4  # 8"),
    "counting from one": r"Each expert $e = 1, \dots, E$ has weights of its own.",
    "a matrix that is split": "对于自注意力块，按行拆分第一个权重，按列拆分第二个权重。",
    "a power with T": r"For $T = 5$ it is $0.632^T \approx 0.1$.",
    "a variance after a division by the width": (
        "如果除以的是 $d_k$，方差就成了 $1/d_k$。比如 $d_k = 16$ 时，方差只有 0.0625。"
    ),
    "the variance of components, by their letters": (
        "如果 $q_i$ 和 $k_i$ 的方差都是 0.25，那么每个乘积的方差是 0.0625，"
        "$d_k=64$ 时点积的方差是 4。"
    ),
    "a sum of products is no product": (
        r"Then $q\cdot k = \sum_{i=1}^{64} q_i k_i$ has mean 0 and variance $64$."
        r" Dividing by $\sqrt{d_k} = 8$ brings the variance back to 1."
    ),
    "two parts that cost": (
        "When we double the sequence the projections cost twice as much, and the two terms"
        " that hold pairs cost four times as much."
    ),
    "two pairs of factors": (
        "Twice as many tokens, four times as many scores;"
        " ten times as many tokens, a hundred times as many."
    ),
    "a denial before a list": "It does not mean that $Q$, $K$ and $V$ are equal.",
    "what others say": "有的文章写自注意力就是 $Q=K=V$，这个说法不严谨：三者乘了不同的矩阵。",
    "what people say, and why not": (
        "Many people say before the softmax everything is matrix multiplication, so it's linear,"
        " but put in 2X:"
    ),
    "two costs of other things": "两者之比 $n/d=16$。\n\n$n=512$，$d=512$ 时两者相等。",
    "parameters beside a cache": "KV Cache 的显存随序列长度线性增长（并与层数等参数相关）。",
    "columns of a table of probabilities": "每列的加和都是1，因为条件概率需要总和为1。",
    "how fast a longer sequence is": "稀疏注意力用 6 倍速度执行 10 倍长的序列。",
    "what an RNN lacks": "RNN 在并行计算方面有严重缺陷，这是它本身的序列依赖特性导致的。",
    "the highest scores, and chance": ("先选出分数最高的 k 个，然后将其分数作为权重进行随机采样。"),
    "a temperature beside what is found out": (
        "他们采样多个回答（比如通过变化温度参数）并测量它们的一致性，以确定哪些是事实。"
    ),
    "a sum of matrices that a note shows": (
        "V = [[4, 0], [0, 2]], $o_1 = 0.881[4,0] + 0.119[0,2] = [3.524, 0.238]$.\n\n"
        "$$X + O = \\begin{pmatrix} 4.524 & 0.238 \\\\ 0.476 & 2.762 \\end{pmatrix}$$"
    ),
    "the simplest attention": "自注意力的最简形式：不用任何参数，直接令 Q = K = V = X。",
    "what a question supposes": "Q: I read that h heads cost h times as much as one head.",
    "positions of several widths": (
        "Take d = 4 here; in the paper d = 512. Then PE(1) · PE(2) = 1.5403 = PE(2) · PE(3)."
    ),
    "exponentials of which two are alike": (
        "第 1 行的过程：e⁵ = 148.41，e² = 7.389，总和 163.19，148.41 / 163.19 = 0.909。"
    ),
    "the sine of small angles is nearly linear": (
        "| pos | 2 | 4 |\n|---|---|---|\n| 0 | 0 | 0 |\n| 1 | 0.0464 | 0.0022 |\n"
        "| 2 | 0.0927 | 0.0043 |\n| 3 | 0.1388 | 0.0065 |"
    ),
    "what a scaled matrix is multiplied by": (
        "X = [[1, 0], [0, 1]]\n\n| part | twice X |\n|---|---|\n| $X X^T$ | 4 |\n| $X X^T X$ | 8 |"
    ),
    "labels that move": "We see decoder_input_ids with the labels shifted to the right.",
}


@pytest.mark.parametrize("note", SILENT.values(), ids=SILENT)
def test_what_is_not_bound_raises_no_alarm(note):
    assert fact_check(note).of("wrong") == []


def test_what_is_bound_still_does():
    code = block("a = np.array([1, 2, 3])", "b = a.copy()", "a += 1", "print(b)  # [1 2 4]")
    (verdict,) = fact_check(code).of("wrong")
    assert verdict.values["right"] == "[1, 2, 3]"
