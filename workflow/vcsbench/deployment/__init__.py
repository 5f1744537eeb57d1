"""Set up servers as they are deployed: what administrators add to Subversion."""
