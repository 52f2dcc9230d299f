"""What a program may ask for, and the budget of work of a check."""
