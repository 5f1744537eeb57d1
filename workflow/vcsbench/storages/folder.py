"""The folders that the configuration names."""

from __future__ import annotations

import os
from pathlib import Path


def resolve(folder: str | Path, root: str | Path) -> Path:
    """The folder itself that a configured one names, be it a link or relative to the checkout `root`: what
    is recorded of a storage or compared with one is always this."""
    return Path(os.path.realpath(Path(root, folder)))
