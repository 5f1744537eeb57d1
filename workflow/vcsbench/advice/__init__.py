"""Recommend a value for each question of a study, from the rows of its tables."""
