"""The guides and the language reference: written pages, pages made from the code, their index."""
