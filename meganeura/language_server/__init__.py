"""The language server: what editors ask about programs, answered by the checker."""
