"""The report's charts as Vega-Lite specifications, each with its data."""
