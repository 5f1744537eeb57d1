"""The report of a study: from frames and dicts to one HTML page that works offline."""
