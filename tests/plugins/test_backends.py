"""A backend of the example package; tests/cli/test_toy_backend.py has all that one can do."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command


@pytest.mark.usefixtures("example")
def test_a_backend_of_the_package_runs_models(meganeura: Command) -> None:
    Path("net.mgn").write_text(
        "block Net()(x: [n, 2]) -> [n, 2]:\n  return x * x\n\nmodel net = Net()\n"
    )
    np.save("x.npy", np.array([[2.0, -3.0]], np.float32))
    given = ("--input", "x=x.npy", "--output", "y.npy", "--random-weights", "0")
    shown = meganeura("run", "net.mgn", *given, "--device", "twin")
    assert (shown.code, shown.err) == (0, "")
    np.testing.assert_array_equal(np.load("y.npy"), [[4.0, 9.0]])
    assert any(line.split()[0] == "twin" for line in meganeura("devices").out.splitlines() if line)
