"""Small edits that mend a refused declaration, each tried before it is shown."""
