"""What was chosen by measuring, as data."""
