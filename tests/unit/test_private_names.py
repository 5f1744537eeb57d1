"""No code uses a private name of a dependency, patches one, or reads the files of Snakemake."""

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
# Ways around an interface without a private name.
FORBIDDEN = re.compile(r"currentframe|_getframe|f_locals|gc\.(disable|freeze)")
# Tests may look there: they check that a fault leaves no lock.
SNAKEMAKE_FILES = re.compile(r"\.snakemake(/(?!conda)|\" /)")


def foreign_modules(tree: ast.Module) -> dict[str, str]:
    """Return the full names of everything imported from outside the package, by its name in the code."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                modules[name.asname or name.name.partition(".")[0]] = name.name
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
    return {
        name: module
        for name, module in modules.items()
        if module.partition(".")[0] not in OWN_MODULES
    }


def base_name(node: ast.expr) -> str:
    """Return the first name of an expression such as `a.b.c`, or "" for another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def private_names(source: str) -> Iterator[str]:
    """Yield the private names of other modules that code uses."""
    tree = ast.parse(source)
    modules = foreign_modules(tree)
    for module in modules.values():
        if re.search(r"\._(?!_)", f".{module}"):
            yield module
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            module = modules.get(base_name(node.value))
            if module:
                yield f"{module}.{node.attr}"


def patched_names(source: str) -> Iterator[str]:
    """Yield what code sets in dependencies. It may set hooks of the standard library."""
    tree = ast.parse(source)
    modules = foreign_modules(tree)
    for node in ast.walk(tree):
        module = ""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            base = modules.get(base_name(node.value))
            module = f"{base}.{node.attr}" if base else ""
        elif (
            isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("setattr")
        ):
            first = node.args[0]
            text = str(first.value) if isinstance(first, ast.Constant) else ""
            module = modules.get(base_name(first), text)
        if module.partition(".")[0] not in ("", *OWN_MODULES, *sys.stdlib_module_names):
            yield module


OWN_MODULES = {
    *("vcsbench", "snakemake_logger_plugin_vcsbench"),
    *(path.stem for folder in ("tests", "benchmarks") for path in (ROOT / folder).glob("*.py")),
}


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


@pytest.mark.parametrize(
    ("source", "patched"),
    [
        (
            "from snakemake.executors.touch import Executor\nExecutor.SLEEPING_TIME = 0",
            ["snakemake.executors.touch.Executor.SLEEPING_TIME"],
        ),
        ("import snakemake.cli as cli\ndel cli.main", ["snakemake.cli.main"]),
        ("import pandas\nmonkeypatch.setattr(pandas, 'x', 1)", ["pandas"]),
        ("monkeypatch.setattr('pandas.x', 1)", ["pandas.x"]),
        ("import os\nmonkeypatch.setattr(os, 'x', 1)", []),
        ("from vcsbench.files import x\nx.a = 1\nself.b = 1", []),
    ],
)
def test_patched_names_finds_them(source: str, patched: list[str]) -> None:
    assert list(patched_names(source)) == patched


RULES = [ROOT / "Snakefile", *WORKFLOW.rglob("Snakefile"), *(WORKFLOW / "rules").glob("*.smk")]
FILES = sorted(
    path
    for folder in (WORKFLOW, ROOT / "benchmarks", ROOT / "tests")
    for path in folder.rglob("*.py")
    if "__pycache__" not in path.parts and path != Path(__file__)
)


def test_code_uses_and_patches_no_private_name_of_other_modules() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        for names in (private_names, patched_names)
        for name in names(path.read_text())
        if name not in ALLOWED
    }
    assert found == set()


def test_rules_use_no_private_name() -> None:
    assert [path.name for path in RULES if re.search(r"\._[a-z]", path.read_text())] == []


def test_code_uses_no_way_around_an_interface() -> None:
    found = [
        (path.name, match[0])
        for path in [*RULES, *FILES]
        for pattern in (FORBIDDEN, SNAKEMAKE_FILES)
        if pattern is FORBIDDEN or ROOT / "tests" not in path.parents
        for match in pattern.finditer(path.read_text())
    ]
    assert found == []


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
