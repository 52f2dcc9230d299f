"""What installed packages add: backends, sources of data, optimizers, schedules and importers."""
