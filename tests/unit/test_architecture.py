"""Imports go against the flow of data through the folders of workflow/vcsbench, and in no circle.

Imports that only a type checker reads (`if TYPE_CHECKING:`) count here, and not in the digests of code
(vcsbench.modules). No code uses a private name of a dependency, patches one, or reads Snakemake's files.
"""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

from project import ROOT
from vcsbench import modules

PACKAGE = modules.PACKAGE
# A folder imports from itself and from those before it. Modules outside of all folders are for all.
FOLDERS = (
    *(
        "config",
        "storages",
        "deployment",
        "sources",
        "systems",
        "axes",
        "plan",
        "subjects",
        "prepare",
    ),
    *("measure", "evidence", "statistics", "advice", "report", "forecast", "run"),
)
# Starts everything, and may import everything.
MAIN = "__main__.py"
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(file):
    return str(file.relative_to(PACKAGE))


def folder_of(name):
    return name.partition("/")[0] if "/" in name else ""


@cache
def tree_of(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(file, types):
    """Yield the modules that a file imports anywhere. For `from a import b` that is `a.b` if it is one."""
    skipped = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            skipped |= {*ast.walk(node)}
        if isinstance(node, ast.ImportFrom) and node not in skipped:
            assert node.level == 0
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                is_module = below.startswith("vcsbench.") and file_of(below).exists()
                yield below if is_module else str(node.module)
        elif isinstance(node, ast.Import) and node not in skipped:
            yield from (alias.name for alias in node.names)


def file_of(name):
    below = name.removeprefix("vcsbench").lstrip(".")
    return Path(modules.file_of(below)) if below else PACKAGE / "__init__.py"


def imports(file, types=True):
    names = (n for n in imported(file, types) if n.split(".")[0] == "vcsbench")
    paths = {file_of(name) for name in names}
    assert all(path.exists() for path in paths)
    return paths


@cache
def edges():
    return frozenset((name_of(file), name_of(path)) for file in FILES for path in imports(file))


def is_allowed(importer, name):
    ours, theirs = folder_of(importer), folder_of(name)
    if importer == MAIN or not theirs:
        return importer == MAIN or name != MAIN
    return bool(ours) and FOLDERS.index(theirs) <= FOLDERS.index(ours)


def test_folders_are_all_ordered():
    assert {folder_of(name_of(file)) for file in FILES} - {""} == set(FOLDERS)


def test_imports_are_from_earlier_folders():
    assert [edge for edge in edges() if not is_allowed(*edge)] == []


def test_imports_of_modules_have_no_circle():
    graph = {}
    for importer, name in edges():
        if importer != name:
            graph.setdefault(importer, set()).add(name)
    TopologicalSorter(graph).prepare()  # names the circle


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_modules_imports_equal_those_of_python(file):
    paths = imports(file, types=False)
    packages = chain.from_iterable(path.parents for path in paths)
    inits = {path / "__init__.py" for path in packages if path.is_relative_to(PACKAGE)}
    assert set(map(Path, modules.imports(str(file)))) == paths | {*filter(Path.exists, inits)}


def test_classes_and_public_functions_have_unique_names():
    files = {}
    for file in FILES:
        functions = (node for node in tree_of(file).body if isinstance(node, ast.FunctionDef))
        public = (node for node in functions if not re.match("_|main$", node.name))
        classes = (node for node in ast.walk(tree_of(file)) if isinstance(node, ast.ClassDef))
        for node in chain(public, classes):
            files.setdefault(node.name, []).append(name_of(file))
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


# Names of other modules

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
SOURCES = sorted(
    path
    for folder in (WORKFLOW, ROOT / "benchmarks", ROOT / "tests")
    for path in folder.rglob("*.py")
    if "__pycache__" not in path.parts and path != Path(__file__)
)


def foreign_modules(tree):
    """Return the full names of everything imported from outside the package, by its name in the code."""
    modules = {}
    for node in ast.walk(tree):
        for name in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if isinstance(node, ast.ImportFrom):
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
            else:
                modules[name.asname or name.name.partition(".")[0]] = name.name
    return {n: m for n, m in modules.items() if m.partition(".")[0] not in OWN_MODULES}


def base_name(node):
    """Return the first name of an expression such as `a.b.c`, or "" for another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def misused_names(source):
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


def test_code_misuses_no_name_of_other_modules():
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in misused_names(path.read_text())
        if name not in ALLOWED
    }
    assert found == set()
    assert [path.name for path in RULES if re.search(r"\._[a-z]", path.read_text())] == []


def test_code_uses_no_way_around_an_interface():
    found = [
        (path.name, match[0])
        for path in [*RULES, *SOURCES]
        for pattern in (FORBIDDEN, SNAKEMAKE_FILES)
        if pattern is FORBIDDEN or ROOT / "tests" not in path.parents
        for match in pattern.finditer(path.read_text())
    ]
    assert found == []


def test_programs_are_started_in_one_module():
    starters = re.compile(
        r"os\.(exec|spawn|posix_spawn|system|popen)|asyncio\.create_subprocess|\bpty\b"
    )
    # They start the timed command, and import nothing that is not needed for that.
    measured = {"measure/launcher.py", "measure/traffic.py", "subjects/strategies.py"}
    found = set()
    for file in FILES:
        if name_of(file) in measured | {"processes.py"}:
            continue
        is_starter = starters.search(file.read_text(encoding="utf-8"))
        if is_starter or "subprocess" in imported(file, types=True):
            found.add(name_of(file))
    assert found == set()


# Functions and properties that make a text for readers.
MAKES_TEXT = re.compile(r"(?!get_|read_|write_)\w*(_text|_label)$|\w*sentence")
READING_METHODS = {"partition", "rpartition", "startswith", "endswith"}


def makes_text(node):
    called = node.func if isinstance(node, ast.Call) else node
    name = ""
    if isinstance(called, ast.Attribute):
        name = called.attr
    elif isinstance(node, ast.Call) and isinstance(called, ast.Name):
        name = called.id
    return bool(MAKES_TEXT.match(name))


def reads_of_texts(tree):
    """Yield the expressions that look into a text for readers, or look it up, as far as names show it.

    A variable of a function that gets such a text counts, too.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = [*ast.walk(function)]
        assigned = (n for n in nodes if isinstance(n, ast.Assign) and makes_text(n.value))
        targets = (target for node in assigned for target in node.targets)
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        for node in nodes:
            read = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                read = [node.func.value] if node.func.attr in READING_METHODS else []
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                read = [node.left, *node.comparators]
            if any(makes_text(n) or (isinstance(n, ast.Name) and n.id in names) for n in read):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    ("body", "is_read"),
    [
        ("return reason_text(x).partition(': ')", True),
        ("label = labels.value_label(x)\n return label not in known", True),
        ("return 'cold' in x.sentence", True),
        ("return place.get_text('x').startswith('a')", False),
        ("return f'{reason_text(x)}.' if x in known else value_label(x)", False),
    ],
)
def test_reads_of_texts_finds_texts_that_are_parsed_or_looked_up(body, is_read):
    found = [*reads_of_texts(ast.parse(f"def f(x, known, place):\n {body}"))]
    assert len(found) == is_read


def test_no_text_for_readers_is_parsed_or_compared_as_data():
    found = {(name_of(file), read) for file in FILES for read in reads_of_texts(tree_of(file))}
    assert found == set()


def test_snakefile_is_a_short_table_of_contents():
    lines = (ROOT / "Snakefile").read_text().splitlines()
    assert len(lines) <= 60
    included = [line.split("/")[-1].strip('"') for line in lines if line.startswith("include:")]
    assert sorted(included) == sorted(path.name for path in (WORKFLOW / "rules").glob("*.smk"))
    assert not [path.name for path in RULES if re.search(r"^\s+run:", path.read_text(), re.M)]


HEAVY = {"pandas", "numpy", "scipy", "jinja2"}
# Each takes milliseconds of every cell-round, or hundreds.
SLOW = {"pandas", "numpy", "yaml", "pydantic", "dataclasses", "inspect", "logging", "platform"}


@pytest.mark.parametrize(
    ("module", "options", "unwanted"),
    [
        ("vcsbench.run.project", [], HEAVY),
        ("vcsbench.report.page", [], HEAVY),
        ("vcsbench.run.cell_job", ["-S"], SLOW),
    ],
)
def test_process_imports_no_slow_library(module, options, unwanted):
    program = f"import sys; import {module}; print(*sys.modules)"
    argv = [sys.executable, *options, "-c", program]
    modules = subprocess.check_output(argv, env={"PYTHONPATH": str(WORKFLOW)}, text=True).split()
    assert module in modules and not unwanted & {*modules}
