"""A model as source of JAX: functions of a dictionary of parameters."""
