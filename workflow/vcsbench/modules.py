"""Which of vcsbench's files run when a module does: what it imports, and what that imports.

Snakemake sees no edit of an imported module, so rules take these files in, and recipes have their digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
# What runs for every cell; and what runs for some, by the key of the recipe that names it.
ENTRY = "run.cell"
KINDS = {
    "work": "measure.work",
    "reads": "subjects",
    "writes": "subjects",
    "server": "measure.servers",
}
# An import statement of ours: how far it is indented, the module, and the names in it, if any.
_IMPORT = re.compile(
    r"^( *)(?:from (vcsbench[\w.]*) import (\([^)]*\)|[^\n(#]*)|import (vcsbench[\w.]*))",
    re.MULTILINE,
)
# What only a type checker reads.
_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?: +[^\n]*)?\n)+", re.MULTILINE)


def closure(*files: str | Path, all_named: bool = False) -> list[Path]:
    """The files of vcsbench that run with some Python files, in the order of their paths; with each what
    lies beside it under its name in another language, which it reads. `all_named`: all files of a folder too
    of which some are imported by names that the data has (axes, metrics, kinds)."""
    found: set[Path] = set()
    waiting = [Path(file).resolve() for file in files]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imports(file)
            waiting += _named(file) if all_named else ()
    ours = [file for file in found if file.is_relative_to(PACKAGE)]
    return sorted(path for file in ours for path in _with_companions(file))


def file_of(module: str) -> Path:
    """The file of a module, by its name below vcsbench: `measure.work.log`. It need not exist."""
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imports(file: Path) -> tuple[Path, ...]:
    """The files that a file imports itself, with the packages that they lie in."""
    return tuple(sorted(set(_imported(_TYPES.sub("", file.read_text(encoding="utf-8"))))))


def _imported(text: str) -> Iterator[Path]:
    for _, base, names, alone in _IMPORT.findall(text):
        module = (base or alone).removeprefix("vcsbench").lstrip(".")
        yield from _with_packages(module)
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            yield from _with_packages(f"{module}.{name}".lstrip("."))


@cache
def _named(file: Path) -> tuple[Path, ...]:
    """The files beside one that imports some of them by name."""
    by_name = "import_module(" in file.read_text(encoding="utf-8")
    return tuple(file.parent.glob("*.py")) if by_name else ()


@cache
def _with_companions(file: Path) -> tuple[Path, ...]:
    return tuple(
        p for p in file.parent.glob(f"{file.stem}.*") if p.suffix in (".py", ".sh", ".conf")
    )


@cache
def _with_packages(module: str) -> tuple[Path, ...]:
    """The file of a module and those of the packages that it lies in; none where there is no such module."""
    if not module:
        return (PACKAGE / "__init__.py",)
    file = file_of(module)
    return (*_with_packages(module.rpartition(".")[0]), file) if file.exists() else ()


def cell_code(recipe: Mapping[str, Any]) -> str:
    """A digest of the modules that run for a cell, and of no others; `recipe` has the keys of KINDS."""
    named = (f"{folder}.{recipe[key]}" for key, folder in KINDS.items() if recipe[key])
    return _digest_of((ENTRY, *named))


@cache
def _digest_of(names: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for file in closure(*map(file_of, names)):
        total.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()[:16]
