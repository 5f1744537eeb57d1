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
OWN_MODULES = {
    *("vcsbench", "snakemake_logger_plugin_vcsbench"),
    *(path.stem for folder in ("tests", "benchmarks") for path in (ROOT / folder).glob("*.py")),
}
RULES = [ROOT / "Snakefile", *WORKFLOW.rglob("Snakefile"), *(WORKFLOW / "rules").glob("*.smk")]
FILES = sorted(
    path
    for folder in (WORKFLOW, ROOT / "benchmarks", ROOT / "tests")
    for path in folder.rglob("*.py")
    if "__pycache__" not in path.parts and path != Path(__file__)
)


def foreign_modules(tree: ast.Module) -> dict[str, str]:
    """Return the full names of everything imported from outside the package, by its name in the code."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        for name in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if isinstance(node, ast.ImportFrom):
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
            else:
                modules[name.asname or name.name.partition(".")[0]] = name.name
    return {n: m for n, m in modules.items() if m.partition(".")[0] not in OWN_MODULES}


def base_name(node: ast.expr) -> str:
    """Return the first name of an expression such as `a.b.c`, or "" for another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def misused_names(source: str) -> Iterator[str]:
    """Yield the private names of other modules that code uses, and the names in dependencies that it sets.

    It may set hooks of the standard library.
    """
    tree = ast.parse(source)
    modules = foreign_modules(tree)
    yield from (module for module in modules.values() if re.search(r"\._(?!_)", f".{module}"))
    for node in ast.walk(tree):
        patched = ""
        if isinstance(node, ast.Attribute) and (base := modules.get(base_name(node.value))):
            if re.match(r"_(?!_)", node.attr):
                yield f"{base}.{node.attr}"
            elif isinstance(node.ctx, ast.Store | ast.Del):
                patched = f"{base}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            first = node.args[0]
            text = str(first.value) if isinstance(first, ast.Constant) else ""
            patched = modules.get(base_name(first), text)
        if patched.partition(".")[0] not in ("", *OWN_MODULES, *sys.stdlib_module_names):
            yield patched


@pytest.mark.parametrize(
    ("source", "misused"),
    [
        ("import atexit\natexit._run_exitfuncs()", ["atexit._run_exitfuncs"]),
        ("from snakemake import jobs\njobs.Job._x = 1", ["snakemake.jobs._x"]),
        ("from snakemake.jobs import _private", ["snakemake.jobs._private"]),
        ("import _socket", ["_socket"]),
        ("import snakemake.cli as cli\ndel cli.main", ["snakemake.cli.main"]),
        ("from snakemake.jobs import Job\nJob.limit = 0", ["snakemake.jobs.Job.limit"]),
        ("import pandas\nmonkeypatch.setattr(pandas, 'x', 1)", ["pandas"]),
        ("monkeypatch.setattr('pandas.x', 1)", ["pandas.x"]),
        ("self._own = 1\nnumbers._mine\nimport os\nos.__file__", []),
        ("import os\nmonkeypatch.setattr(os, 'x', 1)", []),
        ("from vcsbench.files import x\nx.a = 1\nself.b = 1", []),
    ],
)
def test_misused_names_finds_them(source: str, misused: list[str]) -> None:
    assert list(misused_names(source)) == misused


def test_code_misuses_no_name_of_other_modules() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        for name in misused_names(path.read_text())
        if name not in ALLOWED
    }
    assert found == set()
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
    program = "import sys; import vcsbench.run.project;"
    program += "print(*sorted({'pandas', 'numpy', 'scipy', 'jinja2'} & {*sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(WORKFLOW)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("\n", "")
