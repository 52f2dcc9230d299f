"""The language reference: written pages, pages generated from the code, and their index."""
