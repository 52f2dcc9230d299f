"""What is known of an adapter before one is open: limits, kernel configs, tuned configs."""
