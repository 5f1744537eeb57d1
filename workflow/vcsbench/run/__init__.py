"""One run at a time: its lock, its end, its recovery, and the entry points of its processes."""
