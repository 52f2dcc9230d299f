"""Places in a text, problems as data, and how a report is drawn."""
