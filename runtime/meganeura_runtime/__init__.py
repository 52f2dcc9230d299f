"""The back end of Meganeura: a training step is planned, placed in memory and run here."""
