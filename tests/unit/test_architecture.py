"""Imports go against the flow of data through the folders of workflow/vcsbench, and in no circle.

Imports that only a type checker reads (`if TYPE_CHECKING:`) count here. They do not count in the digests of
code (vcsbench.modules).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

from vcsbench import modules

PACKAGE = modules.PACKAGE
# A folder imports from itself and from those before it. Modules outside of all folders are for all.
FOLDERS = (
    *("strategies", "config", "storages", "sources", "axes", "plan", "subjects", "prepare"),
    *("measure", "evidence", "statistics", "advice", "report", "forecast", "run"),
)
# Starts everything, and may import everything.
MAIN = "__main__.py"
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def folder_of(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def is_for_types(node: ast.AST) -> bool:
    is_name = isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    return is_name and node.test.id == "TYPE_CHECKING"  # type: ignore[attr-defined]


def imported(node: ast.AST, types: bool) -> Iterator[str]:
    """Yield the modules imported anywhere below a node. For `from a import b` that is `a.b` if it is one."""
    for child in ast.iter_child_nodes(node):
        if is_for_types(child) and not types:
            continue
        if isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports have whole names"
            for alias in child.names:
                below = f"{child.module}.{alias.name}"
                yield below if is_module(below) else str(child.module)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        else:
            yield from imported(child, types)


def is_module(name: str) -> bool:
    return name.startswith("vcsbench.") and file_of(name).exists()


def file_of(name: str) -> Path:
    below = name.removeprefix("vcsbench").lstrip(".")
    return modules.file_of(below) if below else PACKAGE / "__init__.py"


def imports(file: Path, types: bool = True) -> set[Path]:
    """Return the files of the package that a file imports."""
    names = (n for n in imported(tree_of(file), types) if n.split(".")[0] == "vcsbench")
    paths = {file_of(name) for name in names}
    assert all(path.exists() for path in paths)
    return paths


@cache
def edges() -> frozenset[tuple[str, str]]:
    return frozenset((name_of(file), name_of(path)) for file in FILES for path in imports(file))


def is_allowed(importer: str, name: str) -> bool:
    ours, theirs = folder_of(importer), folder_of(name)
    if importer == MAIN or not theirs:
        return importer == MAIN or name != MAIN
    return bool(ours) and FOLDERS.index(theirs) <= FOLDERS.index(ours)


def circle(edges: Iterable[tuple[str, str]]) -> list[str]:
    """Return a circle in a graph, or []."""
    graph: dict[str, set[str]] = {}
    for importer, name in edges:
        if importer != name:
            graph.setdefault(importer, set()).add(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_folders_are_all_ordered() -> None:
    assert {folder_of(name_of(file)) for file in FILES} - {""} == set(FOLDERS)


def test_imports_are_from_earlier_folders() -> None:
    assert [edge for edge in edges() if not is_allowed(*edge)] == []


def test_imports_of_modules_have_no_circle() -> None:
    assert circle(edges()) == []


def test_imports_of_folders_have_no_circle() -> None:
    assert circle((folder_of(a), folder_of(b)) for a, b in edges() if folder_of(a)) == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_modules_imports_equal_those_of_python(file: Path) -> None:
    paths = imports(file, types=False)
    packages = chain.from_iterable(path.parents for path in paths)
    inits = {path / "__init__.py" for path in packages if path.is_relative_to(PACKAGE)}
    assert set(modules.imports(file)) == paths | (inits if paths else set())


def test_classes_have_unique_names() -> None:
    files: dict[str, list[str]] = {}
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(name_of(file))
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
