"""Work on a program that several commands share: its stages, its workload, its fit on a device."""
