"""What cells work on."""
