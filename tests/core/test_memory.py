"""Memory grows with the length and not with its square: measured in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = """
q, k, v = (torch.randn(1, n, 16, requires_grad=True) for _ in range(3))
regard.attend(q, k, v, regard.causal(), engine="tiles").sum().backward()
"""
ASK = """
q, k = (torch.randn(1, n, 64) for _ in range(2))
regard.weights(q, k, engine="tiles").ask(
    regard.topk(8), regard.entropy(), regard.received(), regard.by_distance(),
    regard.image(512, 512),
)
"""
AUTO = ASK.replace(', engine="tiles"', "")


def growth(work: str, n: int) -> int:
    """By how many MiB the process grows while it does ``work`` at length n."""
    code = f"""
import pathlib, torch, regard
def peak():  # of this program alone: ru_maxrss would count the one that started it
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10
def work(n):
{chr(10).join("    " + line for line in work.strip().splitlines())}
work(64)
before = peak()
work({n})
print(peak() - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(run.stdout)


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the peak from Linux's /proc"
)


WIDTHS = """
q, k, v = torch.randn(1, n, 32), torch.randn(1, n, 32), torch.randn(1, n, 16)
regard.attend(q, k, v, regard.causal())
"""


@pytest.mark.parametrize(
    "work",
    [TRAIN, ASK, AUTO, WIDTHS],
    ids=["training", "asking tiles", "asking", "E is not D"],
)
def test_a_pass_over_6144_tokens_holds_no_square(work: str) -> None:
    dense = 6144 * 6144 * 4 >> 20  # MiB of the weights in float32, once
    assert growth(work, 6144) < dense


def test_the_measure_notices_a_square() -> None:
    assert growth("w = torch.randn(n, n).exp()", 4096) > 4096 * 4096 * 4 >> 20


@pytest.mark.campaign
def test_a_pass_over_32768_tokens_holds_no_square() -> None:
    for work in (ASK, AUTO):
        grown = growth(work, 32_768)
        print(f"32,768 tokens: the process grew by {grown} MiB; the dense weights are 4,096 MiB")
        assert grown < 256
