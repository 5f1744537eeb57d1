"""What is read of the machine and of processes around a run."""
