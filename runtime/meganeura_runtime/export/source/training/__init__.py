"""A `train` block as source: its loss, its optimizer and its loop over the data."""
