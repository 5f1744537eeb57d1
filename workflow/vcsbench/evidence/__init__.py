"""Read exports and contexts into measurements, and judge each run."""
