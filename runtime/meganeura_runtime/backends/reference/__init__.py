"""The backend that is the semantics: NumPy."""
