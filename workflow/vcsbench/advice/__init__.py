"""What to choose for each command and cache state, and what the rounds do not tell apart.

Nothing is recommended on too few rounds, nor where a difference lies within the spread.
"""
