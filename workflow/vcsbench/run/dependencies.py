"""What code a rule depends on."""

from __future__ import annotations

from functools import cache

from vcsbench import modules


@cache
def code_of(script: str) -> list[str]:
    """The files of vcsbench that one of workflow/scripts computes with: Snakemake does not see what a script
    imports."""
    root = modules.PACKAGE.parent.parent
    files = modules.closure(root / "workflow" / "scripts" / f"{script}.py", all_named=True)
    return [str(path.relative_to(root)) for path in files]
