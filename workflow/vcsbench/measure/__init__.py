"""Measure one cell-round: everything here is frozen, since a change of it makes every cell stale."""
