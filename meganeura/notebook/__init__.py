"""For notebooks: programs, models and runs as HTML, live curves, and the magic `%%mgn`."""
