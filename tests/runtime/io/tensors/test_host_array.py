"""Arrays from Python: of NumPy, of PyTorch, of JAX, masked."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_runtime.io.data.source_problems import NotData
from meganeura_runtime.io.tensors.host_array import host_array
from meganeura_runtime.io.tensors.stored_tensor import Array

PROGRAM = """\
block Net()(x: [n, 2]) -> [n, 2]:
  param w: [2] = ones
  return x * w

model net = Net()

train fit(x: [batch, 2]):
  minimize mean((x |> .: net) ** 2)
  run:
    batch     = 2
    optimizer = sgd(lr=0.1)
"""


class Tensor:
    """As one of PyTorch that requires a gradient, of a type that NumPy lacks."""

    def __init__(self, dtype: str = "torch.bfloat16", *, attached: bool = True) -> None:
        self.dtype = dtype
        self.attached = attached

    def detach(self) -> "Tensor":
        return Tensor(self.dtype, attached=False)

    def float(self) -> "Tensor":
        return Tensor("torch.float32", attached=self.attached)

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        del dtype, copy
        if self.attached:
            raise RuntimeError("can't call numpy() on a tensor that requires grad")
        if self.dtype == "torch.bfloat16":
            raise TypeError("got unsupported ScalarType BFloat16")
        return np.full((2, 2), 1.5, np.float32)


def test_tensors_of_any_library_are_taken() -> None:
    own = np.ones((2, 2), np.float32)
    assert host_array(own) is own
    for value in (Tensor(), Tensor("torch.float32"), jnp.full((2, 2), 1.5, jnp.bfloat16)):
        found = host_array(value)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.full((2, 2), 1.5))
    assert host_array([[1, 2]]).shape == (1, 2)


@pytest.fixture
def program(tmp_path: Path) -> meganeura.Program:
    (tmp_path / "net.mgn").write_text(PROGRAM)
    return meganeura.load(str(tmp_path / "net.mgn"))


def test_they_are_taken_wherever_arrays_are(program: meganeura.Program) -> None:
    model = program.model(seed=0)
    found = model.run({"x": Tensor()}, device="cpu")["output"]
    np.testing.assert_array_equal(found, np.full((2, 2), 1.5))
    with program.trainer(device="cpu") as trainer:
        assert trainer.step({"x": Tensor()}).loss == 2.25
        trainer.weights["w"] = jnp.full((2,), 1.5, jnp.bfloat16)
        assert trainer.step({"x": Tensor()}).loss != 2.25


def test_a_masked_array_is_refused_wherever_arrays_are(program: meganeura.Program) -> None:
    masked = np.ma.masked_array(np.ones((2, 2), np.float32), [[True, False]] * 2)
    model = program.model(seed=0)
    with pytest.raises(ValueError, match="masked array"):
        model.run({"x": masked}, device="cpu")
    with pytest.raises(ValueError, match="masked array"):
        host_array([masked, masked])
    with model.session({"n": 2}, device="cpu") as session:
        for use in (session.step, session.upload, session.stage):
            with pytest.raises(FeedError, match="`x` is a masked array"):
                use({"x": masked})
        with pytest.raises(FeedError, match="`w` is a masked array"):
            session.write("w", masked[0])
    with program.trainer(device="cpu") as trainer:
        with pytest.raises(ProblemError, match="masked array"):
            trainer.step({"x": masked})
        with pytest.raises(ValueError, match="masked array"):
            trainer.weights["w"] = masked[0]
    with pytest.raises(ProblemError) as refused:
        program.train(data={"x": masked}, device="cpu", settings={"epochs": 1})
    assert isinstance(refused.value.problem, NotData)
    assert "masked array" in refused.value.problem.reason


def test_a_data_set_may_give_each_example_in_one_buffer(
    program: meganeura.Program, tmp_path: Path
) -> None:
    examples = np.arange(16, dtype=np.float32).reshape(8, 2) / 16

    class Buffered:
        def __init__(self, *, fresh: bool) -> None:
            self.buffer = None if fresh else np.empty(2, np.float32)

        def __len__(self) -> int:
            return len(examples)

        def __getitem__(self, number: int) -> dict[str, Array]:
            if number >= len(examples):
                raise IndexError
            if self.buffer is None:
                return {"x": examples[number].copy()}
            self.buffer[:] = examples[number]
            return {"x": self.buffer}

    settings = {"epochs": 2, "shuffle": False}
    losses = [
        program.train(data=data, device="cpu", settings=settings, out=tmp_path / str(number)).epochs
        for number, data in enumerate((Buffered(fresh=True), Buffered(fresh=False)))
    ]
    assert losses[0] == losses[1]
