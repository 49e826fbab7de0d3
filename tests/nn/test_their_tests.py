"""torch's and Keras' own tests of their attention layers, with ours in its place: a campaign.

Their tests do not come with their wheels and none of their code is here: a variable names a
checkout.  Each test runs twice, with their layer and with ours behind an adapter.  A test that
passes with theirs passes with ours too, or stands below with the reason why not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pages import ROOT


@dataclass(frozen=True)
class Peer:
    """One library, and where its tests are."""

    variable: str
    """Names a checkout of its repository, of the version that is installed."""
    files: tuple[str, ...]
    select: str
    others: dict[str, str]
    """Pattern of a test's name: why it does not pass with ours."""


PEERS = {
    "torch": Peer(
        "REGARD_PYTORCH",
        ("test/nn/test_multihead_attention.py", "test/test_transformers.py"),
        "TestMultihead or TestTransformers",
        {
            "invalid_shape": "refused too, by a ShapeError in our words",
            "train_with_is_causal": "is_causal without attn_mask: refused too, in our words",
            "fast_path_mock|disable_fastpath": "asks whether torch's own kernel was called",
            "script_": "TorchScript, which torch itself has deprecated",
            "encoderlayer_subclass": "TorchScript, which torch itself has deprecated",
        },
    ),
    "keras": Peer(
        "REGARD_KERAS",
        tuple(
            f"keras/src/layers/attention/{name}_test.py"
            for name in (
                "additive_attention",
                "attention",
                "grouped_query_attention",
                "multi_head_attention",
            )
        ),
        "Test",
        {
            "high_dim|axes_negative|non_4d": "attention_axes: refused by name",
            "different_qv_last_dims": "attention_axes: refused by name",
            "different_proj|as_tuple": "output_shape of several axes: refused by name",
            "quantize": "a quantized layer: refused by name",
            "flash_attention_with_errors": "asks for the errors of a kernel that is not called",
            "skipped_for_subclass": "a subclass changes a step within Keras' own attention",
            "with_dropout": "the weights that we show are those before dropout",
        },
    ),
}


@dataclass(frozen=True)
class Outcome:
    """Of one of their tests."""

    said: str
    """passed, failed or skipped"""
    reached: int
    """How often it called our attention."""
    why: str = ""


def outcomes(peer: Peer, folder: Path, *options: str) -> dict[str, Outcome]:
    """What pytest says of their tests, which lie in ``folder``."""
    report = folder / "report.xml"
    paths = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [
            *command,
            *options,
            "-k",
            peer.select,
            f"--junitxml={report}",
            "--rootdir",
            folder,
            folder,
        ],
        env=os.environ | {"PYTHONPATH": paths, "KERAS_BACKEND": "torch"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        said, why = "passed", ""
        for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
            if (node := case.find(kind)) is not None:
                said, why = word, (node.get("message") or "").splitlines()[0]
        reached = int(properties.get("reached") or 0)
        found[f"{case.get('classname')}.{case.get('name')}"] = Outcome(said, reached, why)
    return found


@pytest.mark.campaign
@pytest.mark.parametrize("name", PEERS)
def test_what_passes_with_their_layer_passes_with_ours(name: str, tmp_path: Path) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    peer = PEERS[name]
    checkout = os.environ.get(peer.variable)
    if checkout is None:
        pytest.skip(f"{name}'s own tests are not here: {peer.variable}=path of a checkout of it")
    for file in peer.files:
        shutil.copy(Path(checkout) / file, tmp_path)
    theirs = outcomes(peer, tmp_path)
    ours = outcomes(peer, tmp_path, "-p", f"adapter_{name}")
    passing = [test for test, one in theirs.items() if one.said == "passed"]
    fallen = {test: ours[test] for test in passing if ours[test].said != "passed"}
    well = [ours[test] for test in passing if test not in fallen]
    print(
        f"\n{name}: {len(theirs)} tests, {len(passing)} pass with its own layer; with ours "
        f"{len(well)} of these, {sum(one.reached > 0 for one in well)} of which reach it"
    )
    unexplained = []
    for test, one in fallen.items():
        why = [reason for pattern, reason in peer.others.items() if re.search(pattern, test)]
        print(f"  {test.rpartition('.')[2]}: {why[0] if why else '?'} ({one.why[:100]})")
        if not why:
            unexplained.append(test)
    assert unexplained == []
    idle = [p for p in peer.others if not any(re.search(p, test) for test in fallen)]
    assert idle == [], "reasons that no test needs any more"
    assert well
