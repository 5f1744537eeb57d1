"""Define the axes of grids, and the effect of each value on a cell."""
