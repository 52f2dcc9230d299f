"""A package that adds to Meganeura: the example of docs/plugins.md."""
