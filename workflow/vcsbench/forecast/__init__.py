"""Reports before a run: its side effects and duration, and the capabilities of this machine."""
