"""What a run will take, and what this machine can measure, said before anything is measured."""
