"""Reports before a run: its side effects and duration, and what this machine can measure."""
