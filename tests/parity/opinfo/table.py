"""All rows."""

from tests.parity.opinfo import elementwise, layers, movement, reductions

ROWS = (*elementwise.ROWS, *reductions.ROWS, *movement.ROWS, *layers.ROWS)

ELSEWHERE = {
    "uniform": "an initial value here, a draw in PyTorch",
    "normal": "an initial value here, a draw in PyTorch",
}
"""Functions of one name that mean something else."""
