"""Problems with names, shapes and training, and their words."""
