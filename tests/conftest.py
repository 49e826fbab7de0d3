"""What every test may count on: fixed seeds, one thread a worker, system tools or a good reason."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

# Before anything loads torch or a BLAS. The workers share the cores, and two pools of threads that
# spin on one core are slower than one thread. Torch itself stays unloaded until a test wants it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "campaign",
    deadline=None,
    max_examples=5_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# For seeded faults, which are known to fail: nobody reads the smallest example.
settings.register_profile(
    "first-failure", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("default")

# Plugins of another run of pytest, which put our layers in the place of theirs.
collect_ignore = ["adapter_keras.py", "adapter_torch.py"]

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

SYSTEM_TOOLS = {
    "chromium": (Path("/usr/bin/chromium"), "Debian's chromium: apt-get install chromium"),
}


@pytest.fixture
def needs() -> Callable[[str], Path]:
    """``needs("chromium")`` is the tool's path; where it is missing the test is skipped."""

    def path_of(tool: str) -> Path:
        path, remedy = SYSTEM_TOOLS[tool]
        if not path.exists():
            pytest.skip(f"needs {remedy}")
        return path

    return path_of


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Each test starts from the same random numbers, whichever worker runs it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - libraries under test may draw from the global generator
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def without_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """The house as it is where the C++ engine could not be built."""
    from regard.core import known
    from regard.core.engines import native

    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setattr(native, "_missing", "no such module")
    monkeypatch.setattr(known, "KNOWN", {})  # what calls before have found out with it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport]:
    report = yield
    return refuse_skip(report, browser=item.get_closest_marker("browser") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport]:
    report = yield
    return refuse_skip(report, browser=False)


def refuse_skip(report: Report, *, browser: bool) -> Report:
    """Where the system is complete (REGARD_REQUIRE_SYSTEM), a skip for want of it is a failure."""
    if report.skipped and os.environ.get("REGARD_REQUIRE_SYSTEM"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if browser or reason.startswith("needs "):
            report.outcome = "failed"
            report.longrepr = f"skipped, though REGARD_REQUIRE_SYSTEM is set: {reason}"
    return report
