"""The axes of the grids, a file each."""
