"""A text of 8,000 tokens, by the command itself, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from small import need_package

MEASURED = """
import resource, subprocess, sys
run = subprocess.run([sys.executable, "-m", "regard", *sys.argv[1:]], stdout=subprocess.PIPE)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(run.returncode, peak >> 10)
sys.stdout.write(run.stdout.decode())
"""


@pytest.mark.campaign
@pytest.mark.models
def test_all_heads_of_smollm2_over_8000_tokens_in_4_gigabytes(tmp_path: Path) -> None:
    need_package("smollm2")
    text = tmp_path / "text"
    text.write_text(" the cat sat on the mat" * 1333, encoding="utf-8")  # 6 tokens each
    command = [sys.executable, "-c", MEASURED, "look", "--file", str(text)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    status, peak = map(int, run.stdout.split("\n", 1)[0].split())
    print(f"7,998 tokens: peak {peak} MiB; the dense weights are 69,000 MB")
    assert status == 0
    assert "30 layers × 9 heads" in run.stdout
    assert peak < 4000
