# The part of `jax.experimental.layout` that is used here.
from jax import sharding

class Layout:
    major_to_minor: tuple[int, ...]
    def __init__(self, major_to_minor: tuple[int, ...]) -> None: ...

class Format:
    layout: Layout
    sharding: sharding.Sharding
    def __init__(self, layout: Layout, sharding: sharding.Sharding) -> None: ...
