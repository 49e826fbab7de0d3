"""Faults seeded in the engines, one at a time: the laws must notice each.

Each mutant is a copy of the source with one line changed, and a file of laws is run against it.
A fault counts as noticed only if a test fails, not if the copy does not import.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IN_EVERY_RUN = 3
"""The first so many run in ``make test``; all of them in ``make campaign``."""

MUTANTS = {
    "key heads tiled, not interleaved": (
        "core/test_formula",
        "core/formula.py",
        "device=device(k)) // (H // G)",
        "device=device(k)) % G",
    ),
    "sink left out of the sum": (
        "core/test_formula",
        "core/formula.py",
        "total = total + xp.exp(sink - largest)",
        "total = total + 0 * xp.exp(sink - largest)",
    ),
    "lse 0 for an empty row": (
        "core/test_formula",
        "core/formula.py",
        'lse = xp.where(empty, scalar(s, float("-inf"))',
        "lse = xp.where(empty, scalar(s, 0.0)",
    ),
    "maximum not subtracted": (
        "core/test_laws",
        "core/formula.py",
        "e = xp.exp(s - largest)",
        "largest = 0 * largest\n    e = xp.exp(s)",
    ),
    "hidden values multiplied by 0": (
        "core/test_formula",
        "core/formula.py",
        "if seen is None or (not careful and all_finite(v)):",
        "if True:",
    ),
    "causal hides the query's own key": (
        "core/test_formula",
        "rules/masks.py",
        "Ranges.of(np.zeros_like(at), at + 1,",
        "Ranges.of(np.zeros_like(at), at,",
    ),
    "a strip that begins too late": (
        "core/test_engines",
        "core/tiles.py",
        "first[rows].min(initial=call.sizes.S)",
        "first[rows].max(initial=0)",
    ),
    "sums in half precision": (
        "core/test_engines",
        "core/arrays.py",
        'return xp.float64 if dtype_name(array) == "float64" else xp.float32',
        "return array.dtype",
    ),
    "torch's causal flag with a cache": (
        "core/test_laws",
        "core/engines/sdpa.py",
        "or T != S or not isinstance(start, int) or start != 0 or T == 1",
        "or T == 1",
    ),
    "dropout that depends on the strip": (
        "core/test_laws",
        "core/dropout.py",
        "_mixed(frame.key_positions() + 1)",
        "_mixed(frame.key_positions() - frame.keys.start + len(frame.query_index()))",
    ),
    "scale without the root": (
        "core/test_formula",
        "core/call.py",
        "1 / math.sqrt(sizes.D)",
        "1 / sizes.D",
    ),
    "strided arrays read as if they were whole": (
        "core/test_engines",
        "core/engines/sdpa.py",
        "(a if a.stride(-1) == 1 else a.contiguous() for a in (q, k, v))",
        "(a for a in (q, k, v))",
    ),
    "bias inside the softcap": (
        "core/test_formula",
        "core/formula.py",
        "    s = products if scale == 1 else products * scale\n",
        "    s = products * scale + (0 if bias is None else bias)\n    bias = None\n",
    ),
    "hidden keys multiplied": (
        "core/test_formula",
        "core/formula.py",
        "if seen is None or (not careful and all_finite(q, k)):",
        "if True:",
    ),
    "a window of one more": (
        "core/test_formula",
        "rules/masks.py",
        "at - before, at",
        "at - before - 1, at",
    ),
    "start in the wrong corner": (
        "core/test_formula",
        "core/call.py",
        "        return sizes.S - sizes.T\n",
        "        return 0\n",
    ),
    "a range lost in an intersection": (
        "rules/test_masks",
        "rules/ranges.py",
        "r = start.shape[-2] + start.shape[-1] - 1",
        "r = max(start.shape[-2] + start.shape[-1] - 2, 1)",
    ),
    "a strip that ends too early": (
        "core/test_engines",
        "core/tiles.py",
        "last[rows].max(initial=0)",
        "last[rows].min(initial=call.sizes.S)",
    ),
    "torch's lse for an empty row": (
        "core/test_formula",
        "core/engines/sdpa.py",
        'lse = torch.where(torch.isneginf(mask).all(-1), float("-inf"), lse)',
        "lse = lse * 1",
    ),
    "heads of one query folded in the wrong order": (
        "core/test_laws",
        "core/engines/sdpa.py",
        "q = q.reshape(*k.shape[:2], call.sizes.group, q.shape[-1])",
        "q = q.reshape(k.shape[0], call.sizes.group, k.shape[1], q.shape[-1]).transpose(1, 2)",
    ),
    "diagonals one off": (
        "core/test_questions",
        "core/reducers.py",
        "frame.rows.start - frame.keys.stop + self.frame.sizes.S",
        "frame.rows.start - frame.keys.stop + self.frame.sizes.S - (frame.rows.start > 0)",
    ),
    "the sink left out of the entropy": (
        "core/test_questions",
        "core/reducers.py",
        "total = total + _surprise(xp, strip.sink)",
        "total = total + 0 * strip.sink",
    ),
    "a sink counted by every part": (
        "core/test_laws",
        "core/merge.py",
        "logs.append(_sink_lse(xp, sink, parts[0]))",
        "logs.extend(_sink_lse(xp, sink, p) for p in parts)",
    ),
    "a penalty that is a reward": (
        "rules/test_scores",
        "rules/scores.py",
        "return -slopes[..., None, None]",
        "return slopes[..., None, None]",
    ),
    "relative distances mirrored": (
        "rules/test_scores",
        "rules/scores.py",
        "np.clip(far + n // 2, 0, n - 1)",
        "np.clip(n // 2 - far, 0, n - 1)",
    ),
    "a tangent that is zero": (
        "core/test_derivatives",
        "core/passes.py",
        "return _gradients(back, u, pieces[len(inputs) :], deeper)",
        "return _gradients(back, u, [0 * p for p in pieces[len(inputs) :]], deeper)",
    ),
    "ties that each take all": (
        "core/test_derivatives",
        "core/passes.py",
        "part / ties[i][at]",
        "part",
    ),
    "gradients of what nobody wants": (
        "core/test_derivatives",
        "core/derivatives.py",
        "(next(found) if want else None for want in wanted)",
        "(next(found, None) for want in wanted)",
    ),
    "forward mode let through a graph": (
        "core/test_graphs",
        "core/traced.py",
        "if torch.autograd.forward_ad._current_level >= 0:",
        "if torch.autograd.forward_ad._current_level >= 9:",
    ),
    "autocast let in": (
        "core/test_graphs",
        "core/modes.py",
        "return torch.autocast(array.device.type, enabled=False)",
        "return nullcontext()",
    ),
    "positions baked into the graph": (
        "core/test_graphs",
        "rules/make.py",
        "    if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):\n",
        "    if False:\n",
    ),
}


def run_laws(laws: str, source: Path) -> tuple[int, str]:
    """How the laws fare against the package in ``source``: 0 passed, 1 failed; and the log."""
    path = os.pathsep.join([str(source), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COVERAGE_PROCESS_START": ""}
    env.pop("PYTEST_XDIST_WORKER", None)
    code = (
        "import pathlib, sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        "import regard, pytest\n"  # an editable install goes before PYTHONPATH
        f"assert pathlib.Path(regard.__file__).is_relative_to({str(source)!r}), regard.__file__\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    flags = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    flags += ["-k", "not gradcheck and not gradients", "--hypothesis-profile", "first-failure"]
    flags += ["-o", f"addopts=--import-mode=importlib -m 'not campaign' --rootdir={ROOT}"]
    command = [sys.executable, "-c", code, *flags, f"tests/{laws}.py"]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def mutated(folder: Path, file: str, old: str, new: str) -> Path:
    """A copy of the package with ``old`` replaced by ``new`` in one file."""
    shutil.copytree(ROOT / "src" / "regard", folder / "regard")
    target = folder / "regard" / file
    text = target.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
    target.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def test_each_fault_still_has_its_line() -> None:
    for name, (_, file, line, _) in MUTANTS.items():
        text = (ROOT / "src" / "regard" / file).read_text(encoding="utf-8")
        assert text.count(line) == 1, name


@pytest.mark.parametrize(
    "name",
    [
        *list(MUTANTS)[:IN_EVERY_RUN],
        *(pytest.param(n, marks=pytest.mark.campaign) for n in list(MUTANTS)[IN_EVERY_RUN:]),
    ],
)
def test_a_seeded_fault_is_noticed(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    laws, *change = MUTANTS[name]
    status, log = run_laws(laws, mutated(tmp_path, *change))
    assert status == 1, f"{name}: exit status {status}\n{log[-2000:]}"


@pytest.mark.parametrize(
    "laws",
    [
        "core/test_formula",
        *(pytest.param(f"core/test_{x}", marks=pytest.mark.campaign) for x in ("engines", "laws")),
    ],
)
def test_the_laws_pass_where_nothing_is_changed(laws: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    status, log = run_laws(laws, mutated(tmp_path, "core/plan.py", "takes every call", "takes all"))
    assert status == 0, log[-2000:]
