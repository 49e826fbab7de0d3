"""The native engine beside torch on this CPU, in turns: ratios of medians, and their spread.

    python bench/cpu.py [part of a row's name …]

Every row runs beside torch's fused kernel, compiled FlexAttention and the formula, where they can
do its work.  The same run measures this machine's own matrix product, which a row's share of the
peak is counted from.  What a row must reach stands beside it; one that falls short is printed as it
is.  Numbers go to bench/results/cpu.json, the picture to docs/pictures/cpu.svg.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import _cpu_backward
import _cpu_forward
import _cpu_model
import _cpu_questions
import torch
from _turns import Gain, Result, Row, draw, gemm_peak, measure, measure_gain

from regard.core.engines import native

HERE = Path(__file__).parent


def rows() -> Iterator[Row | Gain]:
    yield from _cpu_forward.rows()
    yield from _cpu_backward.rows()
    yield from _cpu_questions.rows()
    yield from _cpu_model.rows()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only rows whose name holds one of these")
    names = parser.parse_args().names
    engine = native._native
    if engine is None:
        raise SystemExit(f"the native engine is not built: {native._missing}")
    peak = gemm_peak(torch.float32)
    print(
        f"{platform.machine()}, level {engine.level()}, {torch.get_num_threads()} threads, "
        f"float32 GEMM {peak / 1e9:.0f} GFLOP/s, torch {torch.__version__}",
        flush=True,
    )
    results: list[Result] = []
    refused: dict[str, dict[str, str]] = {}
    for row in rows():
        if names and not any(name in row.name for name in names):
            continue
        found, unable = ([measure_gain(row)], {}) if isinstance(row, Gain) else measure(row, peak)
        for result in found:
            print(result, flush=True)
        for peer, why in unable.items():
            print(f"{row.name}: {peer} cannot ({why})", flush=True)
        results += found
        refused[row.name] = unable
    if names:
        return
    (HERE / "results").mkdir(exist_ok=True)
    machine = {"level": engine.level(), "threads": torch.get_num_threads(), "gemm": peak}
    told = [{**asdict(r), "short": r.short} for r in results]
    text = json.dumps({**machine, "rows": told, "refused": refused}, indent=1)
    (HERE / "results" / "cpu.json").write_text(text + "\n", encoding="utf-8")
    beside_torch = [r for r in results if r.peer.startswith("SDPA")]
    draw(beside_torch, HERE.parent / "docs" / "pictures" / "cpu.svg")


if __name__ == "__main__":
    main()
