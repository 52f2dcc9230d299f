"""Results as tables for people and data for machines."""
