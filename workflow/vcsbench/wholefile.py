"""Files that are there whole or not at all, after a power cut as well."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file under another name, flush it to the disk, and rename it into place."""
    path = Path(path)
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file whole."""
    write_whole(path, json.dumps(content, indent=1).encode())
