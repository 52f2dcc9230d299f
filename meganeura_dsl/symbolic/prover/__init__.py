"""Consequences of facts about sizes; only `symbolic.assumptions` imports it."""
