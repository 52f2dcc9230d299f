"""Plugins of installed packages: backends, data, optimizers, schedules and importers."""
