"""A training run, from a `train` block to its folder.

`spec` resolves the settings and makes the graphs of the steps, `data` reads the examples, `loop`
makes the steps, `records` writes the folder and `report` draws its page. `events` are the messages
that a run sends to its observers.
"""
