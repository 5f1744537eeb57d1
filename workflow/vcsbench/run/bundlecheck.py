"""Check the content of a stranger's bundle before it is read: names, sizes, and nesting."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from vcsbench.errors import UserError
from vcsbench.external import printable

# The folders of a bundle, and the names that vcsbench writes.
FOLDERS = ("baselines", "config", "reports", "results")
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~+@=,%-]{0,199}")
PATH_LENGTH = 400
DEPTH = 30
# Everything else, above all .html, is stored with the ending THEIRS.
DATA = {".csv", ".json", ".md", ".yaml", ".txt"}
THEIRS = ".theirs"

JSON_BYTES = 16 * 2**20
YAML_BYTES = 2**20
CSV_BYTES = 64 * 2**20
# Each value costs about 100 bytes of memory.
VALUES = 5_000_000
YAML_NODES = 100_000
YAML_DEPTH = 50


def is_safe_name(name: object) -> bool:
    """Return True if a relative path, or a cell's name, has only components that vcsbench writes."""
    return (
        isinstance(name, str)
        and len(name) <= PATH_LENGTH
        and name.count("/") < DEPTH
        and all(_COMPONENT.fullmatch(part) for part in name.split("/"))
    )


def is_file_name(name: object) -> bool:
    """Return True if a path in a bundle names a file in one of its folders."""
    return (
        isinstance(name, str)
        and name.split("/")[0] in FOLDERS
        and "/" in name
        and is_safe_name(name)
    )


def stored_name(name: str) -> str:
    """Return the path that a file of a bundle is stored at."""
    return name if PurePosixPath(name).suffix in DATA else name + THEIRS


def one_line(text: object, limit: int = 200) -> str:
    """Return text that is safe to print on one line of a terminal."""
    line = printable(str(text)[: 4 * limit]).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Raise UserError for a file that is too large or too nested to read, or has an unsafe cell name."""
    for name in names:
        path = folder / name
        check = _CHECKS.get(path.suffix)
        if check and path.is_file():
            check(path, name)


def check_study(study: Any, page: Mapping[str, Any], where: str) -> None:
    """Raise UserError for a name in a study, or in the options of its page, that becomes part of a path."""
    names = [*study.tables, *study.numbers, *study.findings, *page.get("baselines", [])]
    for name in names:
        if not is_safe_name(name) or "/" in name:
            raise UserError(f"{where}: '{one_line(name)}' is not a name of vcsbench.")


def _check_json(path: Path, name: str) -> None:
    content = _bounded(path, name, JSON_BYTES)
    if content.count(b",") + content.count(b"[") + content.count(b"{") > VALUES:
        raise UserError(f"{name}: the file has more than {VALUES} values.")


def _check_yaml(path: Path, name: str) -> None:
    """Walk through the events, because the loader recurses. An alias counts as all the nodes it repeats."""
    nodes = 0
    sizes: dict[str | None, int] = {}
    open_at: list[tuple[str | None, int]] = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(_bounded(path, name, YAML_BYTES), Loader=loader):
            if isinstance(event, yaml.AliasEvent):
                # Of an anchor that is still open, the alias repeats itself.
                nodes += sizes.get(event.anchor, YAML_NODES)
            elif isinstance(event, yaml.ScalarEvent):
                nodes += 1
                sizes[event.anchor] = 1
            elif isinstance(event, yaml.CollectionStartEvent):
                nodes += 1
                sizes.pop(event.anchor, None)
                open_at.append((event.anchor, nodes))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, start = open_at.pop()
                sizes[anchor] = nodes - start + 1
            if nodes >= YAML_NODES or len(open_at) > YAML_DEPTH:
                raise UserError(
                    f"{name}: the file has more than {YAML_NODES} nodes, or over {YAML_DEPTH} levels."
                )
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{name}: the file is not YAML: {one_line(error)}") from None


def _check_csv(path: Path, name: str) -> None:
    content = _bounded(path, name, CSV_BYTES)
    head, _, rest = content.partition(b"\n")
    # csv.DictReader fills each short row.
    if (head.count(b",") + 1) * (rest.count(b"\n") + rest.count(b"\r") + 1) > VALUES:
        raise UserError(f"{name}: the file has more than {VALUES} values.")
    if b"cell" not in head:
        return
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                cell = row.get("cell")
                if cell and not is_safe_name(cell):
                    raise UserError(f"{name}: '{one_line(cell)}' is not the name of a cell.")
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{name}: the file is not CSV: {one_line(error)}.") from None


_CHECKS = {".json": _check_json, ".yaml": _check_yaml, ".csv": _check_csv}


def _bounded(path: Path, name: str, limit: int) -> bytes:
    if path.stat().st_size > limit:
        raise UserError(f"{name}: the file is larger than {limit >> 20} MiB.")
    return path.read_bytes()
