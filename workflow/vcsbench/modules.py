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
ENTRY = "run.cell_job"
# An edit of these measures no cell of another system again.
GIT_MODULES = ("systems.git", "systems.git_program", "systems.git_shape", "systems.git_store")
_IMPORT = re.compile(
    r"^ *(?:from (vcsbench[\w.]*) import (\([^)]*\)|[^\n(#]*)|import (vcsbench[\w.]*))",
    re.MULTILINE,
)
_NAME = re.compile(r"(\w+)(?: as \w+)?")
_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:\n(?:(?: +[^\n]*)?\n)+", re.MULTILINE)


def cell_code(recipe: Recipe) -> str:
    """Return a digest of the modules that run for a cell with this recipe, such as "0123456789abcdef".

    If this digest changes, the cell is measured again. So the digest leaves out the modules that the cell
    does not use.
    """
    # The kinds of data that the command reads and writes, such as "tree".
    kinds = {recipe["input"], recipe["output"]}
    # The program run.cell_job measures all kinds of cells, and uses these modules only for other cells.
    unused = []
    if not recipe.get("program"):
        unused.append("subjects.strategies")
    if "tree" not in kinds and "built_tree" not in kinds:
        unused += ["subjects.tree", "subjects.tree_stores"]
    if not kinds & {"working_copy", "changed_working_copy"}:
        unused.append("subjects.working_copy")
    if "git_repository" not in kinds:
        unused += ["measure.git_servers", "measure.git_trace", "subjects.git_subjects"]
    if recipe.get("repository", {}).get("system") != "git":
        unused += GIT_MODULES
    # Only cells that commit use these. The hooks of a repository run at a commit.
    if "committed_repository" not in kinds:
        unused += ["subjects.committed_repository", "subjects.changed_working_copy"]
        unused += ["subjects.folder_backup", "deployment.hooks"]
    return _cell_code_without(tuple(unused))


@cache
def _cell_code_without(unused: tuple[str, ...]) -> str:
    unused_files = [file_of(module) for module in unused]
    files = [file for file in imported_files([file_of(ENTRY)]) if file not in unused_files]
    return code_digest(files)


def script_code(script: str | Path) -> str:
    return code_digest(imported_files([os.path.realpath(script)]))


def code_digest(files: Iterable[str]) -> str:
    """Return a digest of files: of the syntax of Python files, and of the whole content of other files.

    An edit of a comment or docstring in a Python file does not change the digest, but another order of
    `files` does.
    """
    total = hashlib.sha256()
    # The loop adds new digests to the mapping, which _known_digests() returns to later calls, too.
    syntax_digests = _known_digests()
    has_new = False
    for file in files:
        content = _bytes(file)
        content_digest = hashlib.sha256(content).hexdigest()
        if file.endswith(".py"):
            if content_digest not in syntax_digests:
                syntax_digests[content_digest] = syntax_digest(content)
                has_new = True
            digest = syntax_digests[content_digest]
        else:
            digest = content_digest
        # The paths count, too, because a renamed file is another module.
        total.update(f"{os.path.relpath(file, PACKAGE)}\0{digest}\0".encode())
    if has_new:
        # A checkout that cannot be written has no cache.
        with suppress(OSError):
            CACHE.parent.mkdir(exist_ok=True)
            # Other processes read the cache, and may write it at the same time.
            new = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
            new.write_text(json.dumps(syntax_digests))
            new.replace(CACHE)
    return total.hexdigest()[:16]


@cache
def _known_digests() -> dict[str, str]:
    """Return the syntax digests of files by the digests of their bytes, as far as the cache has them."""
    return {key: value for key, value in read_json(CACHE).items() if isinstance(value, str)}


def syntax_digest(source: bytes) -> str:
    """Return a digest of Python code without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        # A syntax tree has no comments, but docstrings.
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            if has_docstring:
                del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def imported_files(files: Iterable[str]) -> list[str]:
    """Return the files of the package that Python files import, directly or not, sorted by their path.

    The given files are in the list if they belong to the package. A module also adds the files with its name
    in other languages (.sh, .conf), because it reads them.
    """
    # Paths are strings, because this runs for each cell-round: making Path objects would take longer than
    # reading the files.
    reached: set[str] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += imports(file)
    candidates: set[str] = set()
    for file in reached:
        stem = file.removesuffix(".py")
        candidates.update([f"{stem}.py", f"{stem}.sh", f"{stem}.conf"])
    # A script is no file of the package, only its imports are.
    existing = candidates & _package_files()
    # code_digest() depends on the order of files. Another order would change all digests, and all cells would
    # be measured again.
    return sorted(existing, key=lambda file: file.split("/"))


@cache
def _bytes(file: str) -> bytes:
    with open(file, "rb") as content:
        return content.read()


@cache
def imports(file: str) -> frozenset[str]:
    """Return the files of the package that a Python file imports, without those for type checkers only.

    The imports are found by patterns, because parsing all files would take longer (CACHE).
    """
    text = _TYPE_CHECKING.sub("", _bytes(file).decode())
    files: set[str] = set()
    # `from vcsbench.run import cell_job` gives ("vcsbench.run", "cell_job", ""). `import vcsbench.run` gives
    # ("", "", "vcsbench.run").
    for from_module, names, imported_module in _IMPORT.findall(text):
        full_name = from_module or imported_module
        # Inside the package: "run" for vcsbench.run, and "" for vcsbench itself.
        module = full_name.removeprefix("vcsbench").lstrip(".")
        files.update(_with_packages(module))
        # An imported name may be a module, such as run.cell_job. Any other name, such as that of a function,
        # has no file: then only the files of `module` are added, once more.
        for name in _NAME.findall(names):
            submodule = f"{module}.{name}" if module else name
            files.update(_with_packages(submodule))
    return frozenset(files)


@cache
def _with_packages(module: str) -> tuple[str, ...]:
    """Return the files of a module and of the packages around it (__init__.py), as far as they exist."""
    above = _with_packages(module.rpartition(".")[0]) if module else ()
    file = file_of(module)
    return (*above, file) if file in _package_files() else above


def file_of(module: str) -> str:
    """Return the file of a module, such as "run.cell_job", which may not exist."""
    base = "/".join([str(PACKAGE), *filter(None, module.split("."))])
    package = f"{base}/__init__.py"
    return package if package in _package_files() else f"{base}.py"


@cache
def _package_files() -> frozenset[str]:
    return frozenset(f"{folder}/{name}" for folder, _, names in os.walk(PACKAGE) for name in names)
