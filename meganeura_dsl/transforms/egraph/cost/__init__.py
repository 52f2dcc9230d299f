"""What a chosen form will cost once it runs."""
