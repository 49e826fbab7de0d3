"""Lines of prose, in both languages."""

from __future__ import annotations

import io
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from regard.explanation.faces.wrapping import Prose, wrapped

texts = st.text(st.sampled_from("a b注意。，X力（ q"), max_size=80)


@given(texts, st.integers(8, 30))
def test_nothing_is_lost_and_no_line_begins_with_a_closing_sign(text, width):
    lines = [*wrapped(text, width)]
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    for line in lines:
        assert line == line.strip()
    for line in lines[1:]:
        if line[0] in "。，":  # then it follows a space of the text itself
            assert re.search(rf"\s{re.escape(line[0])}", text)


@given(st.text(st.sampled_from("注意力 矩阵"), max_size=60), st.integers(8, 30))
def test_lines_are_as_wide_as_they_may_be(text, width):
    lines = [*wrapped(text, width)]
    assert all(cell_len(line) <= width for line in lines)
    for line, following in pairwise(lines):
        assert cell_len(line) + cell_len(following[0]) > width - 2


def test_a_chinese_paragraph_fills_its_lines_in_a_terminal():
    out = io.StringIO()
    text = "把 X 的**各行**换个次序，没有掩码的注意力会给出同样的输出，只是次序随之改变。"
    Console(file=out, width=40, color_system=None).print(Prose(f"{text}\n\n- {text}"))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    paragraph = lines[: lines.index("")]
    assert paragraph[0].startswith("把 X 的各行换个次序")
    assert cell_len(paragraph[0]) >= 38
    assert "".join(paragraph) == text.replace("*", "")
    assert lines[len(paragraph) + 1].startswith(" • 把 X 的各行换个次序")
