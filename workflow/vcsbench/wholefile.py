"""Write files whole or not at all: under another name, flushed to the disk, and then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file. After a kill or a power cut the old file is there, or the new one."""
    path = Path(path)
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8."""
    write_whole(path, text.encode())


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file."""
    write_whole(path, json.dumps(content, indent=1).encode())


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object in a JSON file; {} if there is no file, or it is damaged."""
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
