"""Nothing: how long the interpreter takes to start, and a strategy of ours to be found."""


def build(source: str, target: str) -> None:
    """Build nothing."""
