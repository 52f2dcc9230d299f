"""Models as readable source of other systems."""
