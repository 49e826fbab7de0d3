"""The line of each fault and the line that mends it, as the documentation shows them."""

from __future__ import annotations

CODE: dict[str, tuple[str, str]] = {
    "scale-model-dim": (
        "scores = q @ k.mT / math.sqrt(d_model)",
        "scores = q @ k.mT / math.sqrt(d_head)",
    ),
    "scale-missing": (
        "scores = q @ k.mT",
        "scores = q @ k.mT / math.sqrt(d_head)",
    ),
    "scale-no-root": (
        "scores = q @ k.mT / d_head",
        "scores = q @ k.mT / d_head ** 0.5",
    ),
    "scale-inverted": (
        "scores = q @ k.mT * math.sqrt(d_head)",
        "scores = q @ k.mT / math.sqrt(d_head)",
    ),
    "scale-precedence": (
        "scores = q @ k.mT / d_head ** 1/2",
        "scores = q @ k.mT / d_head ** 0.5",
    ),
    "scale-wrong-size": (
        "scores = q @ k.mT / math.sqrt(n_heads)",
        "scores = q @ k.mT / math.sqrt(d_head)",
    ),
    "scale-twice": (
        "y = F.scaled_dot_product_attention(q * d_head**-0.5, k, v)",
        "y = F.scaled_dot_product_attention(q, k, v)",
    ),
    "softmax-axis": (
        "weights = scores.softmax(dim=-2)",
        "weights = scores.softmax(dim=-1)",
    ),
    "softmax-heads": (
        "weights = scores.softmax(dim=1)  # (B, H, T, S)",
        "weights = scores.softmax(dim=-1)",
    ),
    "softmax-single": (
        "weights = scores.unsqueeze(-1).softmax(dim=-1)",
        "weights = scores.softmax(dim=-1)",
    ),
    "softmax-missing": (
        "y = scores @ v",
        "y = scores.softmax(dim=-1) @ v",
    ),
    "softmax-overflow": (
        "e = np.exp(scores)",
        "e = np.exp(scores - scores.max(-1, keepdims=True))",
    ),
    "split-no-transpose": (
        "q = q.view(B, H, T, D)",
        "q = q.view(B, T, H, D).transpose(1, 2)",
    ),
    "merge-no-transpose": (
        "y = y.reshape(B, T, H * D)",
        "y = y.transpose(1, 2).reshape(B, T, H * D)",
    ),
    "mask-head-order": (
        "mask = mask.repeat(H, 1, 1)",
        "mask = mask.repeat_interleave(H, dim=0)",
    ),
    "output-projection-missing": (
        "return y",
        "return self.out(y)",
    ),
    "projection-shared": (
        "self.query = nn.Linear(d_head, d_head)",
        "self.query = nn.Linear(d_model, d_model)",
    ),
    "projection-nonlinear": (
        "q = F.relu(self.query(x))",
        "q = self.query(x)",
    ),
    "value-wrong-source": (
        "y = weights @ k",
        "y = weights @ v",
    ),
    "key-wrong-source": (
        "k = self.query(x)",
        "k = self.key(x)",
    ),
    "query-key-swapped": (
        "scores = k @ q.mT",
        "scores = q @ k.mT",
    ),
    "kv-head-order": (
        "k = k.repeat(1, H // G, 1, 1)",
        "k = k.repeat_interleave(H // G, dim=1)",
    ),
    "batch-as-sequence": (
        "attn = nn.MultiheadAttention(d, h)  # fed (B, T, C)",
        "attn = nn.MultiheadAttention(d, h, batch_first=True)",
    ),
    "mask-inverted": (
        "scores = scores.masked_fill(keep, -math.inf)",
        "scores = scores.masked_fill(~keep, -math.inf)",
    ),
    "mask-after-softmax": (
        "weights = scores.softmax(-1) * keep",
        "weights = scores.masked_fill(~keep, -math.inf).softmax(-1)",
    ),
    "mask-multiplied": (
        "scores = scores * keep",
        "scores = scores.masked_fill(~keep, -math.inf)",
    ),
    "mask-too-weak": (
        "scores = scores.masked_fill(~keep, -10.0)",
        "scores = scores.masked_fill(~keep, -math.inf)",
    ),
    "mask-half-overflow": (
        "scores = scores.masked_fill(~keep, -1e9)",
        "scores = scores.masked_fill(~keep, -math.inf)",
    ),
    "mask-nan": (
        "scores = scores + (1 - keep) * -math.inf",
        "scores = scores.masked_fill(keep == 0, -math.inf)",
    ),
    "masked-row": (
        "weights = scores.softmax(-1)",
        "weights = scores.softmax(-1).masked_fill(~keep.any(-1, keepdim=True), 0.0)",
    ),
    "mask-on-queries": (
        "scores = scores.masked_fill(pad[:, None, :, None], -math.inf)",
        "scores = scores.masked_fill(pad[:, None, None, :], -math.inf)",
    ),
    "mask-ignored": (
        "scores.masked_fill(~keep, -math.inf)",
        "scores = scores.masked_fill(~keep, -math.inf)",
    ),
    "mask-added": (
        "scores = scores + keep",
        "scores = scores.masked_fill(~keep, -math.inf)",
    ),
    "causal-missing": (
        "weights = scores.softmax(-1)",
        "weights = scores.masked_fill(~keep.tril(), -math.inf).softmax(-1)",
    ),
    "causal-transposed": (
        "keep = torch.ones(T, T).triu().bool()",
        "keep = torch.ones(T, T).tril().bool()",
    ),
    "causal-off-by-one": (
        "keep = torch.ones(T, T).tril(1).bool()",
        "keep = torch.ones(T, T).tril().bool()",
    ),
    "causal-misaligned": (
        "keep = torch.ones(T, S).tril().bool()",
        "keep = torch.ones(T, S).tril(S - T).bool()",
    ),
    "window-off-by-one": (
        "keep = (i >= j) & (i - j <= window)",
        "keep = (i >= j) & (i - j < window)",
    ),
    "dropout-in-eval": (
        "weights = F.dropout(weights, p)",
        "weights = F.dropout(weights, p, training=self.training)",
    ),
    "dropout-no-rescale": (
        "weights = weights * kept",
        "weights = weights * kept / (1 - p)",
    ),
    "position-exponent-doubled": (
        "angle = p / 10000 ** (2 * i / d)  # i = 0, 2, 4, …",
        "angle = p / 10000 ** (i / d)",
    ),
    "position-cosine-shifted": (
        "pe[:, 1::2] = np.cos(p / 10000 ** ((i + 1) / d))",
        "pe[:, 1::2] = np.cos(p / 10000 ** (i / d))",
    ),
    "position-integer": (
        "angle = p / 10000 ** (i // d)",
        "angle = p / 10000 ** (i / d)",
    ),
    "position-by-batch": (
        "x = x + pe[: x.size(0)]  # x is (B, T, C)",
        "x = x + pe[: x.size(1)]",
    ),
    "position-odd-width": (
        "pe[:, 1::2] = np.cos(angle)",
        "pe[:, 1::2] = np.cos(angle)[:, : d // 2]",
    ),
    "rotary-pairing": (
        "angle = angle.repeat_interleave(2, -1)  # with halves",
        "angle = torch.cat((angle, angle), -1)",
    ),
    "rotary-axis": (
        "p = torch.arange(x.size(1))  # x is (B, H, T, D)",
        "p = torch.arange(x.size(2))",
    ),
    "rotary-offset": (
        "p = torch.arange(T)",
        "p = torch.arange(T) + cached",
    ),
    "alibi-slopes": (
        "slope = 2.0 ** -torch.arange(H)",
        "slope = 2.0 ** (-8 * torch.arange(1, H + 1) / H)",
    ),
}
"""By id: the faulty line, and the same line mended."""
