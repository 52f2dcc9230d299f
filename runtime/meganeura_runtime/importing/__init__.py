"""What others wrote as programs of ours."""
