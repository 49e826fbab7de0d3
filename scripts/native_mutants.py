"""Puts one small fault at a time into the native engine, and sees its tests find each.

    python scripts/native_mutants.py DIRECTORY [number …]

The sources are copied to DIRECTORY and built there, the first time whole (minutes), then for each
fault what it touches, at the level avx2.  Faults of the kernel are the campaign's to find, those of
the questions their tests'.  A fault that is not found is named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LEVEL = "avx2"
UNITS = ("backward", "level")

# What is wrong, in which file, what stands there, and what shall stand there.
MUTANTS = [
    (
        "a range's end is one too late",
        "rows.h",
        "j < row.last[i]) return true",
        "j <= row.last[i]) return true",
    ),
    (
        "the sums of the last keys do not begin as 0",
        "blocks.h",
        "pieces_of(at.high, NR) - first : 0",
        "at.high / NR - first : 0",
    ),
    ("keys beyond a tile's end count", "blocks.h", "      hide(s, some, wide);\n", ""),
    ("delta is forgotten", "blame.h", "dp = mul(p, sub(dp, delta));", "dp = mul(p, dp);"),
    (
        "a row's lse is that of the row before",
        "blocks.h",
        "memcpy(&lse, at.entry.lse + h * call.lse.head + t * call.lse.row, 8)",
        "memcpy(&lse, at.entry.lse + h * call.lse.head + (t - (t > 40)) * call.lse.row, 8)",
    ),
    ("softcap's slope is 1 − tanh", "blame.h", "mul(sub(one, t), add(one, t))", "sub(one, t)"),
    (
        "dk has the sign of the scale twice",
        "blocks.h",
        "static_cast<float>(__builtin_fabs(job.call.scale)));",
        "static_cast<float>(job.call.scale));",
    ),
    (
        "an output is not scaled down when a greater score comes",
        "micro.h",
        "mul(load(out + r * out_step + n * W), all(shrink[r]));",
        "load(out + r * out_step + n * W);",
    ),
    (
        "hidden values that are not finite are mixed without care",
        "tile.h",
        "  if (tile.whole && tile.last == end) return false;\n",
        "  return false;\n",
    ),
    (
        "keys that are not finite are not told of",
        "blocks.h",
        "  if (unclean) __atomic_store_n(job.unclean, 1, __ATOMIC_RELAXED);\n}",
        "}",
    ),
    (
        "the heap of the strongest keys forgets its last",
        "best.h",
        "if (child + 1 < size && worse",
        "if (child + 2 < size && worse",
    ),
    (
        "the last diagonals of some rows are left out",
        "fold.h",
        "for (; d < n + R - 1; ++d) add_at(d);",
        "for (; d < n; ++d) add_at(d);",
    ),
    (
        "of two pieces of work the later one's pixels are kept",
        "fold.h",
        "if (!p.largest) to += from;",
        "if (!p.largest) to = from;",
    ),
    (
        "the last row says which keys all rows see",
        "asked.h",
        "high = at_least(high, seen_from(call, row, 0, call.S));",
        "high = seen_from(call, row, 0, call.S);",
    ),
]
OF_QUESTIONS = {"asked.h", "best.h", "fold.h"}
IGNORED = shutil.ignore_patterns("CMake*Cache.txt", "CMakeFiles", "*.so")


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """What a command leaves; one that fails ends this, with its own words."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, **options
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done


def build(work: Path, whole: bool) -> None:
    """The engine into the copied package, all of it or what is compiled for one level."""
    at = work / "build"
    if whole:
        python = f"-DPython_EXECUTABLE={sys.executable}"
        levels = f"-DREGARD_LEVELS={LEVEL}"
        run("cmake", "-S", work / "native", "-B", at, "-G", "Ninja", python, levels)
        run("cmake", "--build", at)
    else:
        objects = [f"CMakeFiles/level_{LEVEL}.dir/{unit}.cpp.o" for unit in UNITS]
        for one in objects:
            run("cmake", "--build", at, "--target", one)
        last = run("ninja", "-C", at, "-t", "commands", "_native")
        run("sh", "-c", last.stdout.strip().splitlines()[-1], cwd=at)
    for library in at.glob("_native*.so"):
        shutil.copy(library, work / "src" / "regard" / "core" / "engines")


def environment(work: Path) -> dict[str, str]:
    """That of a Python whose ``regard`` is the copy, even where ours is installed to be edited."""
    first = "import sys\nfrom importlib.machinery import PathFinder\n"
    first += f"sys.path.insert(0, {str(work / 'src')!r})\nsys.meta_path.insert(0, PathFinder)\n"
    (work / "sitecustomize.py").write_text(first, encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(work)}
    asked = "import regard.core.engines._native as native; print(native.__file__)"
    which = run(sys.executable, "-c", asked, env=env).stdout
    if not which.startswith(str(work)):
        raise SystemExit(f"the tests would run with {which}")
    return env


def found_by(work: Path, file: str) -> str:
    """The test that fails with the engine that stands in the copy; empty if none does."""
    asks = file in OF_QUESTIONS
    test = "test_native_questions.py" if asks else "test_native_campaign.py"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "campaign or not campaign"]
    command += [
        "-k",
        LEVEL if asks else "calls",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile",
        "first-failure",
    ]
    command.append(str(ROOT / "tests" / "core" / test))
    env = environment(work)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=ROOT)
    failed = re.findall(r"^(?:FAILED|ERROR) \S*?::(.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or bool(failed) != bool(done.returncode):
        raise SystemExit(done.stdout + done.stderr)
    return ", ".join(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("numbers", type=int, nargs="*", help="only these faults, from 1 on")
    given = parser.parse_args()
    work = given.directory.absolute()
    for name in ("native", "src"):
        shutil.copytree(ROOT / name, work / name, dirs_exist_ok=True, ignore=IGNORED)
    build(work, whole=True)
    left = 0
    for number, (fault, file, old, new) in enumerate(MUTANTS, 1):
        if given.numbers and number not in given.numbers:
            continue
        path = work / "native" / file
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise SystemExit(f"{file} holds {text.count(old)} times: {old}")
        path.write_text(text.replace(old, new), encoding="utf-8")
        build(work, whole=False)
        found = found_by(work, file)
        print(f"{number}. {fault}: {f'found by {found}' if found else 'NOT found'}", flush=True)
        left += not found
        path.write_text(text, encoding="utf-8")
    build(work, whole=False)
    sys.exit(bool(left))


if __name__ == "__main__":
    main()
