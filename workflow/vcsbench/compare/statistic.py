"""What runs are reduced to, as published numbers name it."""

# Their column for it, which is no axis.
STATISTIC = "statistic"
