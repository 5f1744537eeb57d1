"""Comparisons: noise, intervals, decisions, tables, findings, expectations, baselines."""
