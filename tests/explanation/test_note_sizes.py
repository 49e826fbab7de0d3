"""What a note says of sizes: every reading of a quantity is right, anything else is named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.explanation.notes import fact_check
from regard.explanation.notes.sizes import catalogue

GPT = "GPT-2 small has 12 layers, 12 heads and a width of 768; the vocabulary is 50,257.\n\n"
BERT = "BERT-base：层数 12，头数 12，隐藏维度 768，前馈维度 3072，词表 30522。\n\n"
LLAMA = "We take 32 layers, 32 heads of width 128 and d_model = 4096, in fp16.\n\n## KV cache\n\n"

TABLE = "| part | parameters | FLOPs |\n|---|---|---|\n| attention | 4d² | 8nd² |\n"

RIGHT = (
    GPT + "Each projection has 589,824 weights, or 590,592 with biases.",
    GPT + "The attention block of one layer has 2,362,368 parameters with biases.",
    GPT + "One head's query projection has 49,152 weights.",
    GPT + "The FFN has 4,718,592 weights and 3,840 biases.",
    GPT + "Each LayerNorm has 1,536 parameters.",
    GPT + "A block has 7,087,872 parameters. The 12 blocks together hold 85,054,464.",
    GPT + "The token embeddings have 38,597,376 parameters, about 38.6 million.",
    GPT + "For 1024 tokens the scores take 805,306,368 multiplications, or 1.61 GFLOPs.",
    GPT + "The FFN has twice as many weights as the attention.",
    GPT + "About two thirds of a layer's weights are in the FFN.",
    BERT + "每个投影有 589,824 个权重，加上偏置共 590,592 个参数。",
    BERT + "前馈网络共 4,722,432 个参数。",
    BERT + "12 层共 85,054,464 个参数。",
    BERT + "词嵌入有 23,440,896 个参数。",
    BERT + "前馈网络的参数是注意力的 2 倍。",
    LLAMA + "One token takes 524,288 bytes, that is 512 KiB. A context of 4096 tokens needs 2 GiB.",
    LLAMA + "With 8 KV heads instead of 32 the cache shrinks by a factor of 4.",
    TABLE + "| FFN | 8d² | 16nd² |",
    "An FFN whose inner width is 4d has 8d² weights.",
    "16,777,216 scores in float32 take 64 MiB, in fp16 half as much, 32 MiB.",
    "## FLOPs\n\n"
    "Scores $QK^T$ over all heads: $2 n^2 d = 2 \\times 512^2 \\times 256 = 134{,}217{,}728$.",
    "A causal mask over 512 tokens keeps $512 \\cdot 513 / 2 = 131{,}328$ of $262{,}144$ entries.",
    "In the KV cache, for n = 500 that is 500 dot products of width 64.",
    "KV cache，fp16：\n\n- 1024 个 token：1 GiB\n"
    "- 2048 个 token：2 GiB\n- 批大小为 4、长度 1024：4 GiB",
    "If we double the length, the projections cost twice as much, "
    "and the two $n^2$ terms four times as much.",
    "We have $n^2$ scores. Twice as many tokens, four times as many scores; "
    "three times as many tokens, nine times as many.",
    "$n^2d$ 和 $nd^2$：$n=256$，$d=256$ 时两者相等，都是 16777216。",
    "一层有 1,024 个参数，fp32 占 4,096 字节（约 4.0 KiB），fp16 减半，约 2.0 KiB。",
)
WRONG = {
    GPT + "Each projection has 589,842 weights.": "589,824",
    GPT + "The attention block of one layer has 2,326,368 parameters with biases.": "2,362,368",
    GPT + "One head's query projection has 98,304 weights.": "49,152",
    GPT + "The FFN has 2,359,296 weights.": "4,718,592",
    GPT + "The FFN has 4,718,592 weights and 3,480 biases.": "3,840",
    GPT + "Each LayerNorm has 1,356 parameters.": "1,536",
    GPT + "The token embeddings have 38,957,376 parameters.": "38,597,376",
    GPT + "The FFN has four times as many weights as the attention.": "twice",
    GPT + "About two thirds of a layer's weights are in the attention.": "1/3",
    BERT + "每个投影有 598,824 个权重。": "589,824",
    BERT + "前馈网络共 4,272,432 个参数。": "4,722,432",
    BERT + "12 层共 85,045,464 个参数。": "85,054,464",
    BERT + "词嵌入有 23,404,896 个参数。": "23,440,896",
    BERT + "前馈网络的参数是注意力的 4 倍。": "twice",
    LLAMA + "One token takes 524,288 bytes, that is 412 KiB.": "512 KiB",
    LLAMA + "One token takes 524,288 bytes. A context of 4096 tokens needs 1 GiB.": "2 GiB",
    LLAMA + "With 8 KV heads instead of 32 the cache shrinks by a factor of 8.": "4",
    TABLE + "| FFN | 4d² | 16nd² |": "8d²",
    "An FFN whose inner width is 4d has 4d² weights.": "8d²",
    "16,777,216 scores in float32 take 128 MiB.": "64 MiB",
    "注意力矩阵有 1,048,576 个元素，用 fp16 存储需要 4 MiB。": "2 MiB",
}


@pytest.mark.parametrize("note", RIGHT)
def test_every_usual_reading_of_a_size_is_right(note):
    assert fact_check(note).of("wrong") == []


@pytest.mark.parametrize("note", WRONG)
def test_what_is_no_reading_of_a_size_is_named_with_the_right_one(note):
    said = [verdict.values["right"] for verdict in fact_check(note).of("wrong")]
    assert said
    assert all(WRONG[note] in right for right in said)


OBJECTS = (
    ("three", "The three projections have {x:,} weights.", "三个投影共 {x} 个参数。"),
    ("four", "The four projections have {x:,} weights.", "四个投影共 {x} 个参数。"),
    ("ffn", "The feed-forward network has {x:,} parameters.", "前馈网络有 {x} 个参数。"),
    ("query", "W_Q has {x:,} parameters.", "W_Q 有 {x} 个参数。"),
    ("layer", "An encoder layer has {x:,} parameters.", "一层编码器有 {x} 个参数。"),
    ("decoder", "A decoder layer has {x:,} parameters.", "解码器层有 {x} 个参数。"),
)


@pytest.mark.parametrize(("thing", "en", "zh"), OBJECTS, ids=[thing for thing, *_ in OBJECTS])
@given(
    d=st.sampled_from([128, 192, 256, 320, 512, 640, 1024]),
    reading=st.integers(0, 3),
    off=st.integers(11, 97),
)
@settings(max_examples=6)
def test_a_reading_is_right_and_what_is_near_it_is_not(thing, en, zh, d, reading, off):
    formulas = catalogue.PARAMS[thing]
    sizes = {"d": d, "f": 4 * d, "h": d / 32, "k": 32.0, "g": d / 32}
    right = round(catalogue.total(formulas[min(reading, len(formulas) - 1)], sizes))
    every = {round(catalogue.total(formula, sizes)) for formula in formulas}
    for words, given_ in ((en, f"Let d_model = {d}. "), (zh, f"设 d_model = {d}。")):
        assert fact_check(given_ + words.format(x=right)).of("wrong") == []
        if right + off not in every:
            assert fact_check(given_ + words.format(x=right + off)).of("wrong")


@given(st.sampled_from(sorted(catalogue.PARAMS)), st.integers(2, 9))
@settings(max_examples=20)
def test_a_formula_comes_to_what_its_letters_say(thing, times):
    sizes = dict(zip("dfgkhVPnL", (7.0, 11.0, 2.0, 3.0, 5.0, 13.0, 17.0, 19.0, 23.0), strict=True))
    for formula in catalogue.PARAMS[thing]:
        once = catalogue.total(formula, sizes)
        assert once > 0
        assert catalogue.total(catalogue.times(formula, str(times)), sizes) == times * once
        assert catalogue.total(formula, {}) == 0


def test_a_formula_is_shown_as_people_write_it():
    assert catalogue.shown("4dd+4d") == "4d² + 4d"
    assert catalogue.shown(catalogue.times("nnd", "2")) == "2n²d"
