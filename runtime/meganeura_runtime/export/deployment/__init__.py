"""A trained model made ready to be used elsewhere: as plain weights, or compiled."""
