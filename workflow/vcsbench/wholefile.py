"""Files that are there whole or not at all, and how a file that is not whole is known.

What takes long to make is flushed to the disk before it gets its name. What is made again in no time
is sealed instead: a digest lies beside it, and after a power cut the two do not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file under another name, flush it to the disk, and rename it into place."""
    path = Path(path)
    _replace(path, content, flush=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file whole."""
    write_whole(path, json.dumps(content, indent=1).encode())


def read_json(path: str | Path) -> dict[str, Any]:
    """The object that a JSON file holds; {} where there is no file, or it is not whole."""
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_sealed(path: str | Path, text: str) -> None:
    """Write a file in UTF-8, and its seal beside it. The seal comes first: whatever is cut short, and
    wherever, the two do not fit."""
    path, content = Path(path), text.encode()
    line = f"{hashlib.sha256(content).hexdigest()}  {path.name}\n"
    _replace(seal_of(path), line.encode(), flush=False)
    _replace(path, content, flush=False)


def seal_of(path: Path) -> Path:
    """The seal of a file, in the form of sha256sum."""
    return path.with_name(f".{path.name}.sha256")


def sealed_by(seal: Path) -> Path:
    """The file that a seal is of."""
    return seal.with_name(seal.name[1 : -len(".sha256")])


def is_broken(seal: Path) -> bool:
    """Whether the file that a seal is of is there and is not what was written."""
    for _ in range(3):
        try:
            said = seal.read_bytes()
            digest = hashlib.sha256(sealed_by(seal).read_bytes()).hexdigest()
        except FileNotFoundError:
            return False
        if said.split(b" ")[0] == digest.encode():
            return False
        if seal.read_bytes() == said:
            return True
        # Another process is writing the file at this moment.
    return False


def _replace(path: Path, content: bytes, flush: bool) -> None:
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            if flush:
                os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        # A folder that refuses the file may refuse its removal, too.
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
