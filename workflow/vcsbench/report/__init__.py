"""The report of a study: one HTML page that works offline."""
