"""Data about an adapter before one is open: limits, kernel configs, tuned configs."""
