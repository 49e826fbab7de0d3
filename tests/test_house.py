"""The laws of the house: floors, sizes, names, the catalogue, and what an import may load."""

from __future__ import annotations

import ast
import inspect
import os
import random
import re
import shutil
import string
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import regard
from regard._words import LANGUAGES, catalogue

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "regard"
HEAVY = ("matplotlib", "rich", "torch", "transformers", "typer")


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        command, cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False
    )


def python(code: str) -> subprocess.CompletedProcess:
    return run(sys.executable, "-W", "error", "-c", code)


# Floors


def check_floors(root: Path) -> subprocess.CompletedProcess:
    code = (
        "import sys\n"  # an editable install goes before PYTHONPATH
        "sys.meta_path[:] = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        "from importlinter.cli import lint_imports_command\n"
        "lint_imports_command(['--no-cache', '--no-logo'])\n"
    )
    return run(sys.executable, "-c", code, cwd=root, PYTHONPATH=str(root / "src"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the house, to break a law in."""
    root = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(SOURCE, root / "src" / "regard")
    return root


def test_each_floor_imports_only_floors_below():
    done = check_floors(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "law"),
    [
        ("rules/__init__.py", "import regard.core", "Each floor imports only floors below it"),
        ("attic.py", "", "Each floor imports only floors below it"),
        ("core/weights.py", "from regard import attend", "Nothing inside imports the front door"),
        ("core/formula.py", "import regard.core.tiles", "The definition imports no fast path"),
        (
            "core/engines/other.py",
            "import regard.core.engines.sdpa",
            "Engines do not know each other",
        ),
    ],
)
def test_each_floor_law_can_be_broken(copy: Path, file: str, line: str, law: str):
    path = copy / "src" / "regard" / file
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    done = check_floors(copy)
    if before is None:
        path.unlink()
    else:
        path.write_text(before, encoding="utf-8")
    assert done.returncode == 1
    assert f"{law} BROKEN" in " ".join(done.stdout.split())


# Sizes


def longer_than(limit: int, files: Iterable[Path]) -> list[str]:
    return [f.name for f in files if len(f.read_text(encoding="utf-8").splitlines()) > limit]


def test_no_file_is_long():
    texts = (f for f in SOURCE.rglob("*") if f.suffix in {".py", ".js", ".css", ".html", ".toml"})
    assert longer_than(400, texts) == []


def test_the_definition_is_one_page():
    assert longer_than(120, [SOURCE / "core" / "formula.py"]) == []


def test_a_long_file_is_found(tmp_path: Path):
    for lines in (400, 401):
        (tmp_path / f"{lines}.py").write_text("x\n" * lines)
    assert longer_than(400, tmp_path.iterdir()) == ["401.py"]


# The front door


def undocumented(names: Iterable[str], owner: object) -> list[str]:
    """Names whose value has no docstring of its own (a plain value would show its class's)."""
    values = ((name, getattr(owner, name)) for name in names)
    return [name for name, value in values if callable(value) and not inspect.getdoc(value)]


def test_the_front_door_is_sorted_importable_and_documented():
    assert list(regard.__all__) == sorted(set(regard.__all__))
    assert undocumented(regard.__all__, regard) == []
    assert set(regard.__all__) <= set(dir(regard))


def test_a_name_without_docstring_is_found():
    class Door:
        bare = staticmethod(lambda: None)
        told = staticmethod(longer_than.__class__)

    assert undocumented(["bare", "told"], Door) == ["bare"]
    with pytest.raises(AttributeError):
        undocumented(["missing"], Door)


def test_version_is_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert regard.__version__ == project["version"]


# The catalogue

KEY = re.compile(r"[a-z]+\.[a-z0-9_-]+")
FILE = re.compile(r".*\.(css|html|js|json|pdf|png|svg|toml|txt)")


def strings(code: str) -> Iterator[str]:
    """The code's string literals; an f-string gives a pattern, with ``*`` for each ``{}``."""
    inner = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
            yield "".join(v.value if isinstance(v, ast.Constant) else "*" for v in node.values)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.value


def asked_outright(code: str) -> Iterator[str]:
    """The literal keys of ``say("…")`` and ``UserError("…")``."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(ast.Name("say" | "UserError"), [ast.Constant(key), *_]):
                yield key


def missing(entries: Iterable[str], codes: Iterable[str]) -> set[str]:
    """Keys that the code asks for and the catalogue lacks."""
    codes, entries = list(codes), set(entries)
    rooms = {key.partition(".")[0] for key in entries}
    asked = {key for code in codes for key in asked_outright(code)}
    for text in (text for code in codes for text in strings(code)):
        if KEY.fullmatch(text) and not FILE.fullmatch(text) and text.partition(".")[0] in rooms:
            asked.add(text)
    return asked - entries


def unused(entries: Iterable[str], codes: Iterable[str]) -> set[str]:
    """Keys that no code asks for."""
    texts = {text for code in codes for text in strings(code) if " " not in text}
    patterns = [
        re.compile(".+".join(map(re.escape, text.split("*"))))
        for text in texts
        if re.match(r"[a-z]+\.", text)  # "role.*" asks for a room's keys; "*.*" asks for nothing
    ]
    return {key for key in entries if not any(pattern.fullmatch(key) for pattern in patterns)}


def faults(entries: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Entries that lack a language, have one too many, or differ in their ``{names}``."""
    found = []
    for key, texts in entries.items():
        if set(texts) != set(LANGUAGES):
            found.append(f"{key}: languages {sorted(texts)}")
        elif len({placeholders(text) for text in texts.values()}) > 1:
            found.append(f"{key}: placeholders differ")
    return found


def placeholders(text: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def source_codes() -> list[str]:
    return [file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")]


def test_every_entry_speaks_both_languages():
    assert faults(catalogue()) == []


def test_the_catalogue_has_what_the_code_asks_for_and_no_more():
    assert missing(catalogue(), source_codes()) == set()
    assert unused(catalogue(), source_codes()) == set()


def test_each_fault_of_the_catalogue_is_found():
    good = {"a.b": {"en": "{n} heads", "zh": "{n} 个头"}}
    assert faults(good) == []
    assert faults({"a.b": {"en": "x"}}) == ["a.b: languages ['en']"]
    assert faults({"a.b": {"en": "x", "zh": "x", "fr": "x"}}) != []
    assert faults({"a.b": {"en": "{n}", "zh": "{m}"}}) == ["a.b: placeholders differ"]
    code = ['say("a.b"); UserError("c.d"); Mark("a.gone"); open("a.html"); f"e.{x}"']
    assert missing(["a.b"], code) == {"c.d", "a.gone"}
    assert unused(["a.b", "e.f", "g.h"], code) == {"g.h"}


# What an import loads


def loaded_by(code: str) -> list[str]:
    done = python(f"{code}\nimport sys; print(*(m for m in {HEAVY} if m in sys.modules))")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_front_door_loads_nothing_heavy():
    attend = "import numpy, regard; x = numpy.eye(3); regard.attend(x, x, x)"
    assert loaded_by("import regard") == []
    assert loaded_by(f"{attend}; regard.weights(x, x).topk(1)") == []


def test_a_heavy_import_is_found():
    assert loaded_by("import rich") == ["rich"]


def test_regard_works_without_torch():
    done = python(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ImportError('no torch here')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import numpy, regard\n"
        "x = numpy.eye(3)\n"
        "assert numpy.allclose(regard.weights(x, x) @ x, regard.attend(x, x, x))\n"
        "try: import torch\n"
        "except ImportError as error: print(error)\n"
    )
    assert (done.returncode, done.stdout) == (0, "no torch here\n"), done.stderr


# What is shipped, and what is told


def test_words_and_pictures_are_shipped_where_there_is_no_compiler_too(copy: Path, tmp_path: Path):
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    built = shutil.ignore_patterns("CMakeFiles", "CMakeCache.txt", ".*")
    shutil.copytree(ROOT / "native", copy / "native", ignore=built)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "."]
    done = run(*pip, "--wheel-dir", tmp_path, cwd=copy, CXX="/nowhere/c++")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*-py3-none-any.whl")
    here = {
        file.relative_to(ROOT / "src").as_posix()
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".so"
    }
    assert here <= set(zipfile.ZipFile(wheel).namelist())
    assert {Path(name).suffix for name in here} >= {".py", ".typed", ".toml"}


# In pieces, for this file is tracked too.
PRIVATE = re.compile(
    "|".join(
        (
            "pypi" + r"\.org",
            "python" + r"hosted\.org",
            "npm" + r"js\.(org|com)",
            "deb" + r"\.debian\.org",
            "download" + r"\.pytorch\.org",
            "crates" + r"\.io",
            r"(?<![\w.-])/" + "work/",
            r"/tmp/" + r"s\b",
            r"\b" + "shared/" + r"\w+\.md",
            r"\." + r"library/",
        )
    )
)


def test_no_file_names_a_registry_or_a_workplace(needs_git: None):
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard").stdout.split("\n")
    files = [ROOT / name for name in listed if name and (ROOT / name).is_file()]
    assert len(files) > 20
    found = [f for f in files if PRIVATE.search(f.read_text(encoding="utf-8", errors="replace"))]
    assert found == []


@pytest.fixture
def needs_git() -> None:
    if run("git", "rev-parse", "--git-dir").returncode != 0:
        pytest.skip("needs a git checkout")


@pytest.mark.parametrize(
    "text", ["https://pypi" + ".org/p", "cd /" + "work/main", "~/." + "library/"]
)
def test_a_private_name_is_found(text: str):
    assert PRIVATE.search(text)


@pytest.mark.parametrize("text", ["framework/", "src/work/x.py", "key.shared/x", "deb.py"])
def test_an_innocent_name_is_not(text: str):
    assert not PRIVATE.search(text)


# The helpers of conftest.py


def test_seeds_are_fixed():
    import numpy as np

    assert random.random() == random.Random(0).random()
    assert np.random.random() == np.random.RandomState(0).random_sample()  # noqa: NPY002


SKIPS = """
import pytest

def test_tool(needs):
    needs("chromium")

@pytest.mark.browser
def test_browser():
    pytest.skip("no reason to speak of")

def test_other():
    pytest.skip("only on Tuesdays")
"""


@pytest.mark.parametrize(("required", "outcome"), [("", "3 skipped"), ("1", "2 failed, 1 skipped")])
def test_skips_for_want_of_the_system_fail_where_it_is_complete(
    tmp_path: Path, required: str, outcome: str
):
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(conftest.replace("/usr/bin/chromium", "/nowhere"))
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser\n")
    done = run(sys.executable, "-m", "pytest", "-q", cwd=tmp_path, REGARD_REQUIRE_SYSTEM=required)
    assert outcome in done.stdout


def test_a_whole_file_may_not_be_skipped_either(tmp_path: Path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    skip = "import pytest\npytest.skip('needs a tool', allow_module_level=True)\n"
    (tmp_path / "test_file.py").write_text(skip)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run(sys.executable, "-m", "pytest", "-q", cwd=tmp_path, REGARD_REQUIRE_SYSTEM="1")
    assert "1 error" in done.stdout
    assert done.returncode != 0


FORMULAS = [
    "alibi", "attend", "by_distance", "dense", "entropy", "explain", "mass", "merge", "partial",
    "received",
    "relative", "t5_relative", "topk", "weights",
]  # fmt: skip


def test_every_public_function_has_an_example_and_what_computes_its_formula() -> None:
    import regard

    functions = [name for name in regard.__all__ if name[0].islower()]
    without = [name for name in functions if ">>>" not in inspect.getdoc(getattr(regard, name))]
    assert without == []
    assert set(FORMULAS) <= set(functions)
    bare = [name for name in FORMULAS if "::\n" not in inspect.getdoc(getattr(regard, name))]
    assert bare == []
