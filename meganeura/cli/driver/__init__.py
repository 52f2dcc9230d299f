"""What several verbs do with a program: its stages, its workload, whether a device holds it."""
