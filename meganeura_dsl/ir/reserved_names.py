"""Names of what a run itself feeds, keeps or records, so that no program has them for its own."""

COUNTER = "counter"
"""The input of a graph that draws random bits: u32[2], the seed and the step."""
LEARNING_RATE = "learning_rate"
"""The input of a training step that has the learning rates: an f32 scalar, or one for each."""
STATES = "optimizer."
"""The prefix of the names of optimizer states."""
BEGUN = ".begun"
"""The end of the name of a cache that says whether the one named before it has begun."""
RECORDED = ("kind", "step", "epoch", LEARNING_RATE, "steps_per_second")
"""Entries of a run's records beside its loss and its metrics."""
OPTIMIZERS = (
    *("sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "lamb", "adafactor", "muon"),
    *("frozen", "none"),
)
"""Words of the setting `optimizer`, which no optimizer of a program may have as its name."""
