"""Problems with a text, and their words."""
