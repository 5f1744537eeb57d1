"""Find the modules that run with a file, and compute a digest of their code.

Snakemake does not see an edit of an imported module. So rules have this digest as a param, and recipes
contain it. It covers the syntax tree without comments and docstrings.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.files import read_json

if TYPE_CHECKING:
    from vcsbench.records import Recipe

PACKAGE = Path(__file__).parent
# By the digest of a file's bytes. To parse 100 files takes 0.3 s before each measurement, to look them up
# 5 ms.
CACHE = PACKAGE.parent.parent / ".vcsbench" / "code-digests.json"
ENTRY = "run.cell"
_IMPORT = re.compile(
    r"^ *(?:from (vcsbench[\w.]*) import (\([^)]*\)|[^\n(#]*)|import (vcsbench[\w.]*))",
    re.MULTILINE,
)
_NAME = re.compile(r"(\w+)(?: as \w+)?")
_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:\n(?:(?: +[^\n]*)?\n)+", re.MULTILINE)


def cell_code(recipe: Recipe) -> str:
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
    total, known = hashlib.sha256(), _known_digests()
    before = len(known)
    for file in files:
        key = hashlib.sha256(content := _bytes(file)).hexdigest()
        if file.endswith(".py") and key not in known:
            known[key] = syntax_digest(content)
        total.update(f"{os.path.relpath(file, PACKAGE)}\0{known.get(key, key)}\0".encode())
    if len(known) > before:
        with suppress(OSError):
            CACHE.parent.mkdir(exist_ok=True)
            new = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
            new.write_text(json.dumps(known))
            new.replace(CACHE)
    return total.hexdigest()[:16]


@cache
def _known_digests() -> dict[str, str]:
    return {key: value for key, value in read_json(CACHE).items() if isinstance(value, str)}


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
