"""Data flows through the folders of workflow/vcsbench from the first to the last; imports go the other way.

Imports that only a type checker reads (`if TYPE_CHECKING:`) count here: a folder that knows another's types
knows that folder. They do not count where it is asked what runs (vcsbench.modules).
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
# A folder imports from itself and from those before it.
FOLDERS = (
    "strategies",
    "config",
    "storages",
    "sources",
    "axes",
    "plan",
    "subjects",
    "prepare",
    "measure",
    "evidence",
    "statistics",
    "advice",
    "report",
    "forecast",
    "run",
)
# Modules of the package itself (errors, files, processes) may be used by all. They use each other only.
# What starts everything, and so may use everything.
STARTS = {"__main__"}
# Imports against the direction that shall stay: importer, imported, and why.
EXCEPTIONS: dict[tuple[str, str], str] = {}

# What is not yet as it shall be, to be emptied.
NOT_YET_UPWARD: set[tuple[str, str]] = set()
# Circles between modules, or folders, by the import that is in the way.
NOT_YET_STRAIGHT: set[tuple[str, str]] = set()

FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def folder_of(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def is_for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def imported(node: ast.AST, types: bool) -> Iterator[str]:
    """The modules of ours that are imported below a node, wherever: `a.b`, and for `from a import b` too
    where `a.b` is a module."""
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
    """The files of ours that a file imports; all of them are there."""
    names = (n for n in imported(tree_of(file), types) if n.split(".")[0] == "vcsbench")
    found = {file_of(name) for name in names}
    assert all(path.exists() for path in found)
    return found


def edges() -> set[tuple[str, str]]:
    return {(name_of(file), name_of(path)) for file in FILES for path in imports(file)}


def is_allowed(importer: str, name: str) -> bool:
    ours, theirs = folder_of(importer), folder_of(name)
    if importer.removesuffix(".py") in STARTS or (importer, name) in EXCEPTIONS:
        return True
    if not theirs:
        return name.removesuffix(".py") not in STARTS
    return bool(ours) and FOLDERS.index(theirs) <= FOLDERS.index(ours)


def circle(edges: Iterable[tuple[str, str]]) -> list[str]:
    """A circle in a graph; [] if there is none."""
    graph: dict[str, set[str]] = {}
    for importer, name in edges:
        if importer != name:
            graph.setdefault(importer, set()).add(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_folders_of_the_package_are_all_ordered() -> None:
    assert {folder_of(name_of(file)) for file in FILES} - {""} == set(FOLDERS)


def test_a_folder_imports_only_from_those_before_it() -> None:
    assert {edge for edge in edges() if not is_allowed(*edge)} - NOT_YET_UPWARD == set()


def test_each_exception_is_one() -> None:
    assert set(EXCEPTIONS) <= edges()
    assert all(EXCEPTIONS.values())


def test_modules_import_each_other_in_no_circle() -> None:
    assert circle(edges() - NOT_YET_STRAIGHT) == []


def test_folders_import_each_other_in_no_circle() -> None:
    """Whatever their order is said to be."""
    kept = edges() - NOT_YET_STRAIGHT - NOT_YET_UPWARD - set(EXCEPTIONS)
    assert circle((folder_of(a), folder_of(b)) for a, b in kept if folder_of(a)) == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_what_runs_with_a_module_is_known(file: Path) -> None:
    """What reads imports by their looks finds what Python finds: a module, and the packages that it is in."""
    found = imports(file, types=False)
    packages = chain.from_iterable(path.parents for path in found)
    inits = {path / "__init__.py" for path in packages if path.is_relative_to(PACKAGE)}
    assert set(modules.imports(file)) == found | (inits if found else set())


def test_classes_of_the_package_have_unique_names() -> None:
    found: dict[str, list[str]] = {}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(name_of(file))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
