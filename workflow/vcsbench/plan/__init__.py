"""Plan the grids, recipes and order of a run; find results that are up to date."""
