"""What is to be measured: grids, recipes, order, and what is fresh."""
