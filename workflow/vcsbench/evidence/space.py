"""What a working copy takes on its file system, as columns of the measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = ("used_bytes", "exclusive_bytes", "shared_bytes")


def columns(context: Mapping[str, Any]) -> dict[str, int | None]:
    """`used_bytes` as df tells, and by extents `exclusive_bytes` and `shared_bytes`; None where the context
    says nothing of them."""
    said = (context.get("working_copy") or {}).get("space") or {}
    return {name: said.get(name) for name in COLUMNS}
