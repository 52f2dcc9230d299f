"""Certificates of what was proved of sizes: what was asked, and proofs that others can check."""
