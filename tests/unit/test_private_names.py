"""The package and the rules use no private name of Snakemake or of any other module."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "workflow"
# Documented in spite of its name.
ALLOWED = {"os._exit"}
# Ways around an interface without a private name: frames of others, files of Snakemake, its garbage.
FORBIDDEN = re.compile(
    r"currentframe|_getframe|f_locals|\.snakemake/(?!conda)|gc\.(disable|freeze)"
)


def private_names(source: str) -> Iterator[str]:
    """Yield the private names of other modules that some code uses."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                modules[name.asname or name.name.partition(".")[0]] = name.name
                if name.name.startswith("_"):
                    yield name.name
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] != "vcsbench":
            for name in node.names:
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
                if re.search(r"\._(?!_)", f".{node.module}.{name.name}"):
                    yield f"{node.module}.{name.name}"
    modules.pop("vcsbench", None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            base: ast.expr = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in modules:
                yield f"{modules[base.id]}.{node.attr}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import atexit\natexit._run_exitfuncs()", ["atexit._run_exitfuncs"]),
        ("from snakemake import jobs\njobs.Job._x = 1", ["snakemake.jobs._x"]),
        ("from snakemake.jobs import _private", ["snakemake.jobs._private"]),
        ("import _socket", ["_socket"]),
        ("self._own = 1\nnumbers._mine", []),
        ("import os\nos.__file__", []),
    ],
)
def test_private_names_finds_them(source: str, found: list[str]) -> None:
    assert list(private_names(source)) == found


FILES = sorted(path for path in WORKFLOW.rglob("*.py") if "__pycache__" not in path.parts)


def test_code_uses_no_private_name_of_other_modules() -> None:
    found = {
        (str(path.relative_to(WORKFLOW)), name)
        for path in FILES
        for name in private_names(path.read_text())
        if name not in ALLOWED
    }
    assert found == set()


RULES = [ROOT / "Snakefile", WORKFLOW / "Snakefile", *(WORKFLOW / "rules").glob("*.smk")]


def test_rules_use_no_private_name() -> None:
    assert [path.name for path in RULES if re.search(r"\._[a-z]", path.read_text())] == []


def test_run_uses_no_way_around_an_interface() -> None:
    files = [*RULES, *(path for path in FILES if "report" not in path.parts)]
    found = {
        (path.name, match[0]) for path in files if (match := FORBIDDEN.search(path.read_text()))
    }
    assert found == set()


def test_snakefile_is_a_short_table_of_contents() -> None:
    lines = (ROOT / "Snakefile").read_text().splitlines()
    assert len(lines) <= 60
    included = [line.split("/")[-1].strip('"') for line in lines if line.startswith("include:")]
    assert sorted(included) == sorted(path.name for path in (WORKFLOW / "rules").glob("*.smk"))
    assert not [path.name for path in RULES if re.search(r"^\s+run:", path.read_text(), re.M)]


def test_modules_of_the_rules_import_no_heavy_library() -> None:
    program = (
        "import sys; import vcsbench.run.project, vcsbench.run.inputs, vcsbench.config.configuration;"
        "print(*sorted({'pandas', 'numpy', 'scipy', 'jinja2'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(WORKFLOW)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("\n", "")
