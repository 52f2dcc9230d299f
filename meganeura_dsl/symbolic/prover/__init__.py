"""What follows from facts about sizes; only `symbolic.assumptions` imports it."""
