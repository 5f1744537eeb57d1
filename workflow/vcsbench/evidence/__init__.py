"""Exports and contexts read into measurements, and judged."""
