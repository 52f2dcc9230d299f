"""Every limit of the language, so that any check ends.

All are far beyond what the standard models and the largest programs of the benchmarks take, and
none depends on the machine.
"""

CHECK = 2_200_000
"""Steps of one check of a file, or of one graph made outside of a check; see `work`."""
CHECK_CHARACTER = 100
"""Further steps for each character of the file."""
REPAIR = 250_000
"""Steps of the search for small edits that mend a refused file."""
QUESTION = 150_000
"""Steps of one query to the prover, whose answer is then unknown."""
LEARNING = 100_000
"""Steps of adding one fact to the solver state, which is then used in part."""
LIBRARY = 100 * CHECK
"""Steps of a standard block in symbols, whose text is not the user's."""
VALUE = 20
"""Steps of one value of a graph."""
APPLICATION = 50
"""Steps of one block or `def` that is applied."""
EXPRESSION = 4
"""Steps of one expression that is evaluated."""

MOST_TERMS = 1_000
"""Terms of one size, those inside its floors included."""
HIGHEST_DEGREE = 32
"""The degree of a size: factors of one term."""
MOST_DIGITS = 300
"""Digits of a whole number."""
MOST_ATOMS = 256
"""Comparisons and flags of one condition."""
LONGEST_LIST = 100_000
"""Items of a list, those of the lists inside it included."""

MOST_AXES = 32
"""Axes of a tensor; NumPy has 64, and a reduction by windows needs some of its own."""
MOST_ELEMENTS = 2**63 - 1
"""Elements of a tensor: what 64 bits count. What fits a device is for `--limits` to say."""
MOST_VALUES = 100_000
"""Values of one graph, those included that lead to no output."""
MOST_ITERATIONS = 20_000
"""Iterations of loops that are unrolled in one model."""
MOST_PATHS = 64
"""Paths through one block that are tried before its proof is left to each model."""
DEEPEST = 100
"""Blocks inside blocks that may be open at once."""
