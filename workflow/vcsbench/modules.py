"""Find the files of vcsbench that run with a module, and compute a digest of their code.

Snakemake does not see an edit of an imported module. So rules have this digest as a param, and recipes
contain it. The digest covers the syntax tree without comments and docstrings: a corrected comment makes no
result stale.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
# The digest of each file's code, by the digest of its bytes. To parse 100 files takes 0.3 s, which a
# cell-round has to spend before it measures; to look them up takes 5 ms.
CACHE = PACKAGE.parent.parent / ".vcsbench" / "code-digests.json"
# What runs for every cell; and what runs for some, by the key of the recipe that names it.
ENTRY = "run.cell"
KINDS = {
    "work": "measure.work",
    "input": "subjects",
    "output": "subjects",
    "server": "measure.servers",
    "probe": "measure.probes",
    "store": "subjects.tree.stores",
    "program": "strategies",
}
# An import statement of ours: how far it is indented, the module, and the names in it, if any.
_IMPORT = re.compile(
    r"^( *)(?:from (vcsbench[\w.]*) import (\([^)]*\)|[^\n(#]*)|import (vcsbench[\w.]*))",
    re.MULTILINE,
)
_NAME = re.compile(r"(\w+)(?: as \w+)?")
# What only a type checker reads.
_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?: +[^\n]*)?\n)+", re.MULTILINE)


def closure(*files: str | Path, all_named: bool = False) -> list[Path]:
    """The files of vcsbench that run with some Python files, in the order of their paths; with each what
    lies beside it under its name in another language, which it reads. `all_named`: all files of a folder too
    of which some are imported by names that the data has (axes, metrics, kinds)."""
    return [Path(file) for file in _closure(tuple(map(os.path.realpath, files)), all_named)]


def file_of(module: str) -> Path:
    """The file of a module, by its name below vcsbench: `measure.work.log`. It need not exist."""
    return Path(_file_of(module))


def is_kind(folder: str, name: str) -> bool:
    """Whether a folder of kinds (one of KINDS) has one of this name."""
    return name.isidentifier() and file_of(f"{folder}.{name}").exists()


def imports(file: Path) -> list[Path]:
    """The files that a file imports itself, with the packages that they lie in."""
    return [Path(path) for path in _imports(str(file))]


def cell_code(recipe: Mapping[str, Any]) -> str:
    """A digest of the modules that run for a cell, and of no others; `recipe` has the keys of KINDS."""
    named = (f"{folder}.{recipe[key]}" for key, folder in KINDS.items() if recipe.get(key))
    return _digest_of((ENTRY, *named))


def script_code(script: str | Path) -> str:
    """Return a digest of the code that runs with a script, with all kinds that it may import by name."""
    return code_digest(map(str, closure(script, all_named=True)))


@cache
def _digest_of(names: tuple[str, ...]) -> str:
    return code_digest(_closure(tuple(map(_file_of, names)), all_named=False))


def code_digest(files: Iterable[str]) -> str:
    """Return a digest of the code in some files, and of the content of those that are not Python."""
    total = hashlib.sha256()
    for file in files:
        name = os.path.relpath(file, PACKAGE)
        total.update(f"{name}\0{_syntax_digest(file)}\0".encode())
    _save_digests()
    return total.hexdigest()[:16]


# Known digests; and whether some of them are not in the cache's file yet.
_digests: dict[str, str] = {}
_state = {"read": False, "changed": False}


def _syntax_digest(file: str) -> str:
    content = _bytes(file)
    key = hashlib.sha256(content).hexdigest()
    if not file.endswith(".py"):
        return key
    if not _state["read"]:
        _state["read"] = True
        with suppress(OSError, ValueError, TypeError, AttributeError):
            known = json.loads(CACHE.read_bytes())
            _digests.update({str(k): v for k, v in known.items() if isinstance(v, str)})
    if key not in _digests:
        _digests[key] = syntax_digest(content)
        _state["changed"] = True
    return _digests[key]


def syntax_digest(source: bytes) -> str:
    """Return a digest of Python code that comments, docstrings and layout have no part in."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _save_digests() -> None:
    if _state["changed"]:
        _state["changed"] = False
        # Without the cache the next process computes them again.
        with suppress(OSError):
            CACHE.parent.mkdir(exist_ok=True)
            new = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
            new.write_text(json.dumps(_digests))
            new.replace(CACHE)


# Below here paths are strings: this runs for every cell-round, where those of pathlib take longer than the
# reading of the files.
def _closure(files: tuple[str, ...], all_named: bool) -> list[str]:
    found: set[str] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imports(file)
            waiting += _named(file) if all_named else ()
    ours = [file for file in found if file.startswith(f"{PACKAGE}/")]
    return sorted((path for file in ours for path in _with_companions(file)), key=_parts)


def _parts(file: str) -> list[str]:
    return file.split("/")


@cache
def _bytes(file: str) -> bytes:
    with open(file, "rb") as content:
        return content.read()


@cache
def _imports(file: str) -> frozenset[str]:
    text = _TYPES.sub("", _bytes(file).decode())
    return frozenset(path for module in _imported(text) for path in _with_packages(module))


def _imported(text: str) -> Iterator[str]:
    """What may be modules, by their names below vcsbench."""
    for _, base, names, alone in _IMPORT.findall(text):
        module = (base or alone).removeprefix("vcsbench").lstrip(".")
        yield module
        for name in _NAME.findall(names):
            yield f"{module}.{name}".lstrip(".")


@cache
def _named(file: str) -> tuple[str, ...]:
    """The files beside one that imports some of them by name."""
    folder = os.path.dirname(file)
    beside = [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".py")]
    return tuple(beside) if b"import_module(" in _bytes(file) else ()


@cache
def _with_companions(file: str) -> tuple[str, ...]:
    stem = file.removesuffix(".py")
    return tuple(stem + suffix for suffix in (".py", ".sh", ".conf") if stem + suffix in _present())


@cache
def _with_packages(module: str) -> tuple[str, ...]:
    """The file of a module and those of the packages that it lies in; none where there is no such module."""
    file = _file_of(module)
    if file not in _present():
        return ()
    return (*_with_packages(module.rpartition(".")[0]), file) if module else (file,)


def _file_of(module: str) -> str:
    base = "/".join([str(PACKAGE), *filter(None, module.split("."))])
    package = f"{base}/__init__.py"
    return package if package in _present() else f"{base}.py"


@cache
def _present() -> frozenset[str]:
    """The files of the package."""
    return frozenset(f"{folder}/{name}" for folder, _, names in os.walk(PACKAGE) for name in names)
