"""Open sizes: read off the inputs, agreed on by all of them, chosen where they do not follow."""

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.infer.inference_problems import InputShape, OpenSize, WrongInputs
from meganeura_runtime.infer.size_binding import bind_sizes

N, H, D = dim("n"), dim("h"), dim("d")


def declared(**shapes: tuple[Size, ...]) -> dict[str, TensorType]:
    return {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("wanted", "given", "sizes"),
    [
        ((N, 3, H), (2, 3, 9), {"n": 2, "h": 9}),
        ((2 * N, N), (6, 3), {"n": 3}),
        ((2 * N + 1,), (7,), {"n": 3}),
        ((N * H, N), (6, 3), {"n": 3, "h": 2}),
        ((N * H, H * D, D), (6, 10, 5), {"n": 3, "h": 2, "d": 5}),
        ((N * N, N), (16, 4), {"n": 4}),
        ((N // 4, N), (1, 5), {"n": 5}),
        ((), (), {}),
        ((4,), (4,), {}),
    ],
)
def test_sizes_follow_from_an_input(
    wanted: tuple[Size, ...], given: tuple[int, ...], sizes: dict[str, int]
) -> None:
    assert bind_sizes(declared(x=wanted), {"x": given}) == sizes


def test_sizes_are_shared_by_all_inputs() -> None:
    wanted = declared(x=(N, H), y=(H, D), z=(N + D,))
    given = {"x": (2, 3), "y": (3, 5), "z": (7,)}
    assert bind_sizes(wanted, given) == {"n": 2, "h": 3, "d": 5}
    with pytest.raises(ProblemError) as caught:
        bind_sizes(wanted, {**given, "y": (4, 5)})
    problem = caught.value.problem
    assert isinstance(problem, InputShape)
    assert (problem.name, problem.sizes) == ("y", (("d", 5, "`y`"), ("h", 3, "`x`")))


@pytest.mark.parametrize(
    ("wanted", "given", "hint"),
    [
        ((N, 3, H), (3, 9), "a single example is still a batch, of size 1: [1, 3, 9]"),
        ((3, H), (9, 3), "transpose it to [3, 9]"),
        ((3, 4), (4, 3), "transposed by [1, 0]?"),
        ((2 * N,), (7,), ""),
        ((N, 3), (2, 3, 1, 1), "reshape it to [2, 3]"),
        ((N, 6), (2, 1, 6), "reshape it to [2, 6]"),
        ((N, 6), (2, 3), "reshape it to [1, 6]"),
        ((N, 3), (3, 1), "transpose it to [1, 3]"),
        ((3, 4), (4, 3, 1), ""),
        ((3, 4), (4,), "axis 0 is missing, of size 3: [3, 4]"),
        ((3, 4), (3,), "axis 1 is missing, of size 4: [3, 4]"),
        ((N, 3, 8, 8), (2, 8, 8), "axis 1 is missing, of size 3: [2, 3, 8, 8]"),
        ((6,), (9, 6), "declare `x: [n, 6]`"),
        ((10, 6), (9, 6), "the model takes 10 of them: for any number, declare `x: [n, 6]`"),
        ((N + 3,), (3,), ""),
    ],
)
def test_another_shape_is_refused(
    wanted: tuple[Size, ...], given: tuple[int, ...], hint: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        bind_sizes(declared(x=wanted), {"x": given})
    problem = caught.value.problem
    assert isinstance(problem, InputShape)
    assert hint in problem.hint
    assert bool(hint) == bool(problem.hint)


@pytest.mark.parametrize(
    ("wanted", "given", "sizes"),
    [
        ((2 * N,), (7,), ()),
        ((2 * N, N), (7, 4), (("n", 4, "`x`"),)),
        ((N + 3,), (3,), ()),
        ((N, 3), (2, 4), (("n", 2, "`x`"),)),
        ((3, 4), (4, 3), ()),
    ],
)
def test_what_is_wrong_tells_the_sizes_that_are_known(
    wanted: tuple[Size, ...], given: tuple[int, ...], sizes: tuple[tuple[str, int, str], ...]
) -> None:
    """No number that does not fit is one of them."""
    with pytest.raises(ProblemError) as caught:
        bind_sizes(declared(x=wanted), {"x": given})
    problem = caught.value.problem
    assert isinstance(problem, InputShape)
    assert problem.sizes == sizes
    assert problem.given == str(list(given))


@pytest.mark.parametrize("size", [N * N, N // 4, (N + 1) // 2, N * H])
def test_only_a_size_in_even_steps_is_read_off(size: Size) -> None:
    """Though a square such as this one would tell."""
    with pytest.raises(ProblemError) as caught:
        bind_sizes(declared(x=(size,)), {"x": (16,)})
    assert isinstance(caught.value.problem, OpenSize)
    assert caught.value.problem.size in {"n", "h"}


def test_a_size_that_does_not_follow_is_chosen() -> None:
    wanted = declared(x=((N + 1) // 2,))
    with pytest.raises(ProblemError) as caught:
        bind_sizes(wanted, {"x": (3,)})
    assert caught.value.problem == OpenSize("n")
    assert bind_sizes(wanted, {"x": (3,)}, {"n": 6}) == {"n": 6}
    with pytest.raises(ProblemError) as caught:
        bind_sizes(wanted, {"x": (3,)}, {"n": 7})
    problem = caught.value.problem
    assert isinstance(problem, InputShape)
    assert problem.sizes == (("n", 7, "the command line"),)


@pytest.mark.parametrize(
    ("names", "missing", "unknown"),
    [
        ((), ("x", "y"), ()),
        (("x",), ("y",), ()),
        (("x", "z", "y"), (), ("z",)),
        (("z", "Y", "x"), ("y",), ("Y", "z")),
    ],
)
def test_exactly_the_declared_inputs_are_given(
    names: tuple[str, ...], missing: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    with pytest.raises(ProblemError) as caught:
        bind_sizes(declared(x=(3,), y=(3,)), dict.fromkeys(names, (3,)))
    assert caught.value.problem == WrongInputs(missing, unknown, (("x", "f32[3]"), ("y", "f32[3]")))


def test_an_empty_input_is_told_so() -> None:
    report = InputShape("x", "[0, 4]", "f32[n, 4]", ()).report()
    assert report.headline == "`x` is empty"
    assert report.help is not None
    assert "at least 1" in report.help.text
    assert "another shape" in InputShape("x", "[10, 4]", "f32[n, 5]", ()).report().headline
