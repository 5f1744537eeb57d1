"""Find the modules that run with a file, and compute a digest of their code.

Snakemake does not see an edit of an imported module. So rules have this digest as a param, and recipes
contain it. It covers the syntax tree without comments and docstrings.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
ENTRY = "run.cell"
_IMPORT = re.compile(
    r"^ *(?:from (vcsbench[\w.]*) import (\([^)]*\)|[^\n(#]*)|import (vcsbench[\w.]*))",
    re.MULTILINE,
)
_NAME = re.compile(r"(\w+)(?: as \w+)?")
_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:\n(?:(?: +[^\n]*)?\n)+", re.MULTILINE)


def cell_code(recipe: Mapping[str, Any]) -> str:
    """Return a digest of the modules that run for a cell with this recipe."""
    kinds = {recipe["input"], recipe["output"]}
    used = {
        "subjects.strategies": bool(recipe.get("program")),
        "subjects.tree": bool(kinds & {"tree", "built_tree"}),
        "subjects.tree_stores": bool(kinds & {"tree", "built_tree"}),
        "subjects.working_copy": "working_copy" in kinds,
    }
    return _cell_code(tuple(module for module in used if not used[module]))


@cache
def _cell_code(unused: tuple[str, ...]) -> str:
    others = {file_of(module) for module in unused}
    return code_digest(file for file in closure([file_of(ENTRY)]) if file not in others)


def script_code(script: str | Path) -> str:
    return code_digest(closure([os.path.realpath(script)]))


def code_digest(files: Iterable[str]) -> str:
    """Return a digest of the code in files, and of the content of those that are not Python."""
    digests = (f"{os.path.relpath(file, PACKAGE)}\0{_file_digest(file)}\0" for file in files)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


@cache
def _file_digest(file: str) -> str:
    content = _bytes(file)
    return syntax_digest(content) if file.endswith(".py") else hashlib.sha256(content).hexdigest()


def syntax_digest(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


# Paths are strings from here on: pathlib takes longer than all reading, for each cell-round.
def closure(files: Iterable[str]) -> list[str]:
    """Return the files of the package that run with Python files, in order.

    A module comes with the files of its name in other languages (.sh, .conf), which it reads.
    """
    found: set[str] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imports(file)
    ours = {
        stem + suffix
        for stem in (file.removesuffix(".py") for file in found)
        for suffix in (".py", ".sh", ".conf")
    }
    return sorted(ours & _package_files(), key=lambda file: file.split("/"))


@cache
def _bytes(file: str) -> bytes:
    with open(file, "rb") as content:
        return content.read()


@cache
def imports(file: str) -> frozenset[str]:
    text = _TYPE_CHECKING.sub("", _bytes(file).decode())
    modules = set()
    for base, names, alone in _IMPORT.findall(text):
        module = (base or alone).removeprefix("vcsbench").lstrip(".")
        modules |= {module, *(f"{module}.{name}".lstrip(".") for name in _NAME.findall(names))}
    return frozenset(path for module in modules for path in _with_packages(module))


@cache
def _with_packages(module: str) -> tuple[str, ...]:
    """Return the files of a module and its packages, without those that do not exist."""
    above = _with_packages(module.rpartition(".")[0]) if module else ()
    file = file_of(module)
    return (*above, file) if file in _package_files() else above


def file_of(module: str) -> str:
    base = "/".join([str(PACKAGE), *filter(None, module.split("."))])
    package = f"{base}/__init__.py"
    return package if package in _package_files() else f"{base}.py"


@cache
def _package_files() -> frozenset[str]:
    return frozenset(f"{folder}/{name}" for folder, _, names in os.walk(PACKAGE) for name in names)
