"""What each form of expression is: its value and type."""
