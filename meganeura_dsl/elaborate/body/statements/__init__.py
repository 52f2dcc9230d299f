"""What each form of statement does."""
