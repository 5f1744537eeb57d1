"""Nothing: how long the interpreter takes to start and to import what `transform` imports."""

import breezy

from vcsbench.strategies import transform  # noqa: F401 - for what it imports


def build(source: str, target: str) -> None:
    """Build nothing."""
    with breezy.initialize():
        pass
