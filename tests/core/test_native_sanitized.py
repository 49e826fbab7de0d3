"""The C++ engine's property tests, with an engine that two sanitizers watch.

A report of AddressSanitizer or UndefinedBehaviorSanitizer ends the process, and so fails the test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from levels import LEVELS

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BESIDE = Path(sys.executable).parent
"""Where CMake and ninja are."""
FLAGS = "-fsanitize=address,undefined"
OPTIONS = {
    "OMP_NUM_THREADS": "1",
    # Python and torch keep memory to the end.
    "ASAN_OPTIONS": "detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # Nor is it measured which lines of Python it reaches.
    "COVERAGE_PROCESS_CONFIG": "",
    "COVERAGE_PROCESS_START": "",
}
# A process that finds this module first takes the watched engine for the built one.
SITE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("regard.core.engines._native", {path!r})
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
"""


# What the sanitizers are for: eight keys more than there are, and more entries than can be counted.
TOO_FAR = """
import numpy as np, regard
keys = np.ones(65536, np.float32)
more = np.lib.stride_tricks.as_strided(keys, (4104, 16), (64, 4))
regard.attend(keys[:256].reshape(16, 16), more, more, engine="native")
"""
TOO_MANY = """
from regard.core.engines import _native
_native.attend((0, 2, 2**40, 2**40), 1.0, 0.0, 1.0)
"""


def run(
    *command: str | Path, status: int = 0, env: Mapping[str, str] = MappingProxyType({})
) -> str:
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, **env},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout[-8000:]
    return done.stdout


@pytest.fixture
def preloaded(tmp_path: Path) -> str:
    """The sanitizer's library, and that of C++, whose exceptions it must know of from the start."""
    compiler = os.environ.get("CXX", "c++")
    source = tmp_path / "try.cpp"
    source.write_text("int main() {}\n", encoding="utf-8")
    try:
        run(compiler, FLAGS, source, "-o", tmp_path / "try")
        names = ("libasan.so", "libstdc++.so")
        found = [run(compiler, f"-print-file-name={name}").strip() for name in names]
    except (AssertionError, OSError) as error:
        pytest.skip(f"needs a C++ compiler that takes {FLAGS}: {error}")
    if not all(Path(path).is_absolute() for path in found):
        pytest.skip("needs GCC's libasan.so, for Python itself is not built with it")
    return " ".join(found)


def watched(build: Path, levels: list[str], preloaded: str) -> dict[str, str]:
    """Builds the engine with the sanitizers; the environment in which Python takes it."""
    cmake = BESIDE / "cmake"
    chosen = [
        "-DREGARD_SANITIZE=ON",
        f"-DREGARD_LEVELS={';'.join(levels)}",
        "-DCMAKE_BUILD_TYPE=Watched",  # which adds no option, nor takes assertions away
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_MAKE_PROGRAM={BESIDE / 'ninja'}",
    ]
    run(cmake, "-S", ROOT / "native", "-B", build, "-G", "Ninja", *chosen)
    run(cmake, "--build", build)
    (library,) = build.glob("_native*.so")
    site = SITE.format(path=str(library))
    (build / "sitecustomize.py").write_text(site, encoding="utf-8")
    paths = [str(build), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return {"LD_PRELOAD": preloaded, "PYTHONPATH": path, **OPTIONS}


def assert_clean(env: dict[str, str], *args: str | Path) -> None:
    # A report goes past Python, and what pytest had caught would be lost with the process.
    plain = ("-q", "-x", "--no-header", "-n0", "-p", "no:cacheprovider", "--capture=sys")
    said = run(sys.executable, "-m", "pytest", *plain, *args, env=env)
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


def assert_watched(env: dict[str, str], work: Path) -> None:
    """What is planted in a test of its own makes that run fail."""
    test = work / "test_planted.py"
    for planted, report in ((TOO_FAR, "heap-buffer-overflow"), (TOO_MANY, "signed integer ov")):
        body = textwrap.indent(planted, "    ")
        test.write_text(f"def test_planted():\n{body}", encoding="utf-8")
        with pytest.raises(AssertionError, match=report):
            assert_clean(env, test)


FILES = [HERE / f"test_native{name}.py" for name in ("", "_gradients", "_questions", "_campaign")]


def test_the_best_level_and_the_portable_one_are_clean(tmp_path: Path, preloaded: str) -> None:
    env = watched(tmp_path, LEVELS[:1], preloaded)
    assert_watched(env, tmp_path)
    # The campaign in short has large calls too, of every kind.
    assert_clean(env, *FILES, "-k", "not test_large_calls and not test_biases_get")


@pytest.mark.campaign
def test_every_level_is_clean(tmp_path: Path, preloaded: str) -> None:
    env = watched(tmp_path, LEVELS, preloaded)
    assert_watched(env, tmp_path)
    assert_clean(env, *FILES)
