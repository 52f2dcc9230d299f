"""Files that are whole or not there, bounded, and never believed unseen."""
