"""Names of leaves that a run itself feeds or keeps, so that no program has them for its own."""

COUNTER = "counter"
"""The input of a graph that draws random bits: u32[2], the seed and the step."""
LEARNING_RATE = "learning_rate"
"""The input of a training step that has the learning rates: an f32 scalar, or one for each."""
STATES = "optimizer."
"""How the names of what an optimizer remembers begin."""
