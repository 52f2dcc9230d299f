"""The command line: one file for each verb, each importing what it needs when it runs."""
