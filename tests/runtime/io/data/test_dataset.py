"""Data meets a program: inputs matched by name, shape, type and number of examples."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.io.data.batches import (
    even_batch,
    order_of_epoch,
    require_batch,
    runs,
    steps_of_epoch,
)
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.data.data_problems import (
    DataShape,
    MissingTensor,
    NothingHeldOut,
    TwoTensors,
)
from meganeura_runtime.io.data.dataset import Dataset, InputSpec, match_data, match_held_out
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.io.files.file_problems import NotFinite, OutOfRange
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor

PATH = Path("data.safetensors")
BATCH = dim("batch")


def f32(*shape: Size) -> TensorType:
    return TensorType(DType.F32, shape)


def i32(*shape: Size) -> TensorType:
    return TensorType(DType.I32, shape)


IMAGES = InputSpec({"image": f32(BATCH, 1, 2, 3), "label": i32(BATCH)}, {"batch": 4})


def tensors(**arrays: Array) -> dict[str, StoredTensor]:
    """Tensors by name; two underscores stand for a dot."""
    found: dict[str, StoredTensor] = {}
    for written, values in arrays.items():
        name = written.replace("__", ".")
        kind = f"{values.dtype.kind}{8 * values.dtype.itemsize}"
        found[name] = StoredTensor(PATH, name, kind, values)
    return found


def images(count: int) -> Array:
    return np.arange(count * 6, dtype=np.float32).reshape(count, 1, 2, 3)


def labels(count: int) -> Array:
    return np.arange(count, dtype=np.int64) % 10


def match(demand: InputSpec, found: Mapping[str, StoredTensor]) -> Dataset:
    return match_data(found, demand, PATH)


def refused(demand: InputSpec, found: Mapping[str, StoredTensor]) -> Problem:
    with pytest.raises(ProblemError) as caught:
        match(demand, found)
    caught.value.problem.report()
    return caught.value.problem


def test_two_splits_are_found_by_their_prefix() -> None:
    found = tensors(
        train__image=images(10),
        train__label=labels(10),
        test__image=images(3),
        test__label=labels(3),
        names=np.zeros(10, np.uint8),
    )
    dataset = match(IMAGES, found)
    assert dataset.train.examples == 10
    assert dataset.test is not None
    assert dataset.test.examples == 3


def test_a_file_without_splits_is_all_trained_on() -> None:
    dataset = match(IMAGES, tensors(image=images(10), label=labels(10)))
    assert dataset.train.examples == 10
    assert dataset.test is None


def test_a_batch_holds_the_examples_asked_for() -> None:
    split = match(IMAGES, tensors(image=images(10), label=labels(10))).train
    fed = split.take(np.array([7, 2]))
    np.testing.assert_array_equal(fed["image"], images(10)[[7, 2]])
    np.testing.assert_array_equal(fed["label"], [7, 2])
    assert (fed["image"].dtype, fed["label"].dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(split.take(slice(8, 10))["label"], [8, 9])


def test_an_example_may_have_several_rows_and_an_input_none() -> None:
    demand = InputSpec(
        {"x": f32(BATCH * dim("length"), 2), "y": f32(BATCH), "table": f32(3)},
        {"batch": 2, "length": 3},
        whole=frozenset({"table"}),
    )
    x = np.arange(24, dtype=np.float32).reshape(12, 2)
    found = tensors(x=x, y=np.arange(4, dtype=np.float32), table=np.ones(3, np.float32))
    split = match(demand, found).train
    assert split.examples == 4
    fed = split.take(np.array([2, 0]))
    np.testing.assert_array_equal(fed["x"], x[[6, 7, 8, 0, 1, 2]])
    np.testing.assert_array_equal(fed["table"], [1, 1, 1])
    np.testing.assert_array_equal(split.take(slice(1, 3))["x"], x[3:9])


def test_without_a_free_size_an_example_is_a_slab_of_each_input() -> None:
    demand = InputSpec({"mel": f32(1, 4), "labels": f32(3, 2)}, {})
    mel, wanted = np.zeros((5, 4), np.float32), np.arange(30, dtype=np.float32).reshape(15, 2)
    split = match(demand, tensors(mel=mel, labels=wanted)).train
    assert split.examples == 5
    np.testing.assert_array_equal(split.take(np.array([4]))["labels"], wanted[12:])


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((BATCH, dim("length")), {"x": 1, "y": 1}),
        ((BATCH * dim("length"), 2), {"x": 3, "y": 1}),
        ((4 * BATCH,), {"x": 4, "y": 1}),
        ((2, BATCH), {"y": 1}),
        ((2, 2), {"y": 1}),
    ],
)
def test_the_rows_of_an_example_are_known_without_data(
    shape: tuple[Size, ...], rows: Mapping[str, int]
) -> None:
    inputs = {"x": f32(*shape), "y": i32(BATCH), "table": f32(BATCH)}
    demand = InputSpec(inputs, {"batch": 5, "length": 3}, whole=frozenset({"table"}))
    assert demand.rows == rows
    assert InputSpec({"x": f32(4, 2)}, {}).rows == {}


def test_a_size_that_is_the_same_in_each_example_has_a_name() -> None:
    demand = InputSpec({"x": f32(BATCH, dim("length"))}, {"batch": 2, "length": 3})
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    split = match(demand, tensors(x=x)).train
    assert split.examples == 4
    np.testing.assert_array_equal(split.take(np.array([2]))["x"], x[2:3])
    assert isinstance(refused(demand, tensors(x=x.reshape(3, 4))), DataShape)


def test_a_process_takes_its_own_part_of_a_batch() -> None:
    split = match(IMAGES, tensors(image=images(10), label=labels(10))).train
    assert split.take_own(slice(4, 8), range(1, 3))["label"].tolist() == [5, 6]
    assert split.take_own(slice(4, 8), range(2, 4), is_again=True)["label"].tolist() == [6, 7]
    assert split.take_own(np.array([9, 2, 5]), range(1, 3))["label"].tolist() == [2, 5]


def test_rows_of_a_file_take_no_computation(tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", images(10))
    np.save(tmp_path / "label.npy", labels(10))
    opened = open_data(tmp_path)
    assert not any(isinstance(each.content, np.ndarray) for each in opened.values())
    assert not match(IMAGES, opened).train.is_slow


def test_examples_are_chosen_from_those_chosen_before() -> None:
    split = match(IMAGES, tensors(image=images(10), label=labels(10))).train
    assert isinstance(split, StoredSplit)
    even = split.only(np.arange(0, 10, 2))
    some = even.only(np.array([4, 1, 3]))
    assert some.take(slice(0, 3))["label"].tolist() == [8, 2, 6]
    assert (some.examples, some.stored) == (3, 10)


@pytest.mark.parametrize("prefix", ["", "train."])
def test_tensors_of_test_are_held_out_beside_those_of_any_name(prefix: str) -> None:
    trained = {f"{prefix}image": images(5), f"{prefix}label": labels(5)}
    held = {"test.image": images(3), "test.label": labels(3)}
    dataset = match(IMAGES, tensors(**trained, **held))
    assert dataset.test is not None
    assert (dataset.train.examples, dataset.test.examples) == (5, 3)
    with pytest.raises(ProblemError) as caught:
        match(IMAGES, tensors(**trained, **{"test.image": images(3)}))
    assert isinstance(caught.value.problem, MissingTensor)


@pytest.mark.parametrize("held", [{}, {"test.image": images(3), "test.label": labels(3)}])
@pytest.mark.parametrize("twice", ["image", "label"])
def test_of_two_tensors_to_train_on_neither_is_picked(twice: str, held: dict[str, Array]) -> None:
    trained = {"train.image": images(5), "train.label": labels(5)}
    problem = refused(IMAGES, tensors(**trained, **held, **{twice: trained[f"train.{twice}"]}))
    assert isinstance(problem, TwoTensors)
    assert (problem.name, problem.input) == (twice, twice)
    named = replace(IMAGES, tensors={"label": "kind"})
    kinds = {"train.kind": labels(5), "label": labels(5), "train.label": labels(5)}
    assert match(named, tensors(**{"train.image": images(5)}, **kinds)).train.examples == 5


@pytest.mark.parametrize("prefix", ["", "test."])
def test_data_that_is_held_out_may_have_splits_of_its_own(prefix: str) -> None:
    held = {f"{prefix}image": images(3), f"{prefix}label": labels(3)}
    more = {"train.image": images(5), "train.label": labels(5)} if prefix else {}
    split = match_held_out(tensors(**held, **more), IMAGES, PATH)
    assert split.examples == 3
    empty = {name: values[:0] for name, values in held.items()}
    with pytest.raises(ProblemError) as caught:
        match_held_out(tensors(**empty, **more), IMAGES, PATH)
    assert isinstance(caught.value.problem, NothingHeldOut)


def test_a_tensor_of_another_name_makes_no_split_of_data_that_is_held_out() -> None:
    held = {"image": images(3), "label": labels(3), "test.other": labels(2)}
    assert match_held_out(tensors(**held), IMAGES, PATH).examples == 3


def test_what_is_held_out_is_of_the_tensors_that_a_setting_names() -> None:
    named = replace(IMAGES, tensors={"image": "picture", "label": "kind"})
    held = {"test.picture": images(3), "test.kind": labels(3)}
    for more in ({}, {"picture": images(5), "kind": labels(5)}):
        assert match_held_out(tensors(**held, **more), named, PATH).examples == 3


def test_a_split_that_lacks_an_input_is_not_taken_from_beside_it() -> None:
    held = {"test.image": images(3), "image": images(5), "label": labels(5)}
    with pytest.raises(ProblemError) as caught:
        match_held_out(tensors(**held), IMAGES, PATH)
    assert isinstance(caught.value.problem, MissingTensor)
    assert caught.value.problem.name == "test.label"
    whole, node = np.ones((5, 2), np.float32), np.arange(3, dtype=np.int32)
    shared = match_held_out(tensors(**{"x": whole, "test.node": node}), GRAPH, PATH)
    assert shared.examples == 3


GRAPH = InputSpec({"x": f32(5, 2), "node": i32(BATCH)}, {"batch": 2}, whole=frozenset({"x"}))


def test_a_whole_input_is_shared_by_both_splits_unless_each_has_its_own() -> None:
    x, node = np.ones((5, 2), np.float32), np.arange(4, dtype=np.int32)
    ids = {"train.node": node, "test.node": node[:3]}
    found = match(GRAPH, tensors(x=x, **ids))
    assert found.test is not None
    assert (found.train.examples, found.test.examples) == (4, 3)
    np.testing.assert_array_equal(found.test.take(slice(0, 2))["x"], x)
    own = match(GRAPH, tensors(**ids, **{"train.x": x, "test.x": 2 * x}))
    assert own.test is not None
    np.testing.assert_array_equal(own.train.take(slice(0, 2))["x"], x)
    np.testing.assert_array_equal(own.test.take(slice(0, 2))["x"], 2 * x)
    for split in ("train.x", "test.x"):
        assert refused(GRAPH, tensors(**ids, **{split: x})).code == "E0522"
        shared = match(GRAPH, tensors(x=3 * x, **ids, **{split: x}))
        for each in (shared.train, shared.test):
            assert each is not None
            np.testing.assert_array_equal(each.take(slice(0, 2))["x"], 3 * x)


@pytest.mark.parametrize("shape", [(4, 2), (6, 2), (10, 2), (5, 3), (5, 2, 1), (5,), ()])
def test_a_whole_input_has_the_shape_it_is_declared_with(shape: tuple[int, ...]) -> None:
    held = tensors(x=np.zeros(shape, np.float32), node=np.zeros(6, np.int32))
    assert isinstance(refused(GRAPH, held), DataShape)


def test_a_train_with_whole_inputs_alone_has_one_step_in_an_epoch() -> None:
    demand = InputSpec({"x": f32(dim("v"), 2)}, {"v": 5}, whole=frozenset({"x"}))
    split = match(demand, tensors(x=np.zeros((5, 2), np.float32))).train
    assert (demand.batch, split.examples) == (1, 1)
    assert split.take(np.array([0]))["x"].shape == (5, 2)


def test_tensors_may_have_other_names() -> None:
    demand = InputSpec(IMAGES.inputs, IMAGES.sizes, tensors={"image": "pictures"})
    found = match(demand, tensors(pictures=images(4), label=labels(4)))
    np.testing.assert_array_equal(found.train.take(slice(0, 4))["image"], images(4))
    split = tensors(**{"train.pictures": images(4), "test.pictures": images(3)})
    split |= tensors(**{"train.label": labels(4), "test.label": labels(3)})
    both = match(demand, split)
    assert both.test is not None
    assert both.test.examples == 3
    assert refused(demand, tensors(image=images(4), label=labels(4))).code == "E0522"


def test_examples_held_out_are_found_where_every_tensor_has_another_name() -> None:
    names = {"image": "pictures", "label": "digits"}
    split = {"train.pictures": images(4), "train.digits": labels(4)}
    split |= {"test.pictures": images(3), "test.digits": labels(3)}
    found = match(InputSpec(IMAGES.inputs, IMAGES.sizes, tensors=names), tensors(**split))
    assert found.test is not None
    assert found.test.examples == 3


def test_the_nearest_name_is_offered_for_a_missing_tensor() -> None:
    advice = refused(IMAGES, tensors(images=images(4), label=labels(4))).report().help
    assert advice is not None
    assert "`images`" in advice.text


def test_the_name_of_a_tensor_is_given_without_its_split() -> None:
    span = Span(Source("fit.mgn", 'data = "a.npz"'), 0, 4)
    found = tensors(**{"train.images": images(4), "train.label": labels(4)})
    with pytest.raises(ProblemError) as caught:
        match_data(found, IMAGES, PATH, span)
    advice = caught.value.problem.report().help
    assert advice is not None
    assert advice.code == 'data = file("data.safetensors", image="images")'


@pytest.mark.parametrize(
    ("image", "label", "code"),
    [
        (images(4).reshape(4, 1, 3, 2), labels(4), "E0523"),
        (images(4).reshape(4, 6), labels(4), "E0523"),
        (images(4), labels(4).reshape(4, 1), "E0523"),
        (images(4), labels(4).astype(np.float32), "E0524"),
        (images(4), labels(5), "E0525"),
    ],
)
def test_a_mismatch_is_refused(image: Array, label: Array, code: str) -> None:
    assert refused(IMAGES, tensors(image=image, label=label)).code == code


def test_a_transposed_tensor_is_recognised() -> None:
    found = tensors(image=images(4).transpose(0, 2, 3, 1), label=labels(4))
    report = refused(IMAGES, found).report()
    assert report.help is not None
    assert "`image: [batch, 2, 3, 1]`" in report.help.text
    assert report.help.code == "rearrange(image, [batch, h, w, 1] -> [batch, 1, h, w])"
    assert [remark.text for remark in report.remarks] == ["f32[4, 2, 3, 1]", "f32[batch, 1, 2, 3]"]


ROWS = InputSpec({"x": f32(BATCH, 3), "y": f32(BATCH, 10)}, {"batch": 2})
CLASSES = InputSpec({"x": f32(BATCH, 3), "y": i32(BATCH)}, {"batch": 2})
COLUMN = InputSpec({"x": f32(BATCH, 3), "y": f32(BATCH, 1)}, {"batch": 2})
PICTURE = InputSpec({"x": f32(BATCH, 1, 4, 3)}, {"batch": 2})
CLIP = InputSpec({"x": f32(BATCH, 5, 3), "y": i32(BATCH)}, {"batch": 2})


@pytest.mark.parametrize(
    ("wanted", "x", "y", "cure"),
    [
        (ROWS, (8, 3), np.zeros(8, np.int64), "one_hot(y, 10)"),
        (ROWS, (8, 3), np.zeros(10, np.int64), "one_hot(y, 10)"),
        (ROWS, (8, 3), np.zeros(10, np.float32), "of size 1: [1, 10]"),
        (CLASSES, (8, 3), np.zeros((8, 10), np.float32), "`y: [batch, 10]`"),
        (CLASSES, (8, 3), np.zeros((8, 10), np.int64), "argmax(y, 1)"),
        (CLASSES, (8, 3), np.zeros((8, 1), np.int64), "rearrange(y, [batch, 1] -> [batch])"),
        (COLUMN, (8, 3), np.zeros(8, np.float32), "insert_axis(y, 1, 1)"),
        (COLUMN, (3,), np.zeros((1, 1), np.float32), "of size 1: [1, 3]"),
        (COLUMN, (3, 8), np.zeros((8, 1), np.float32), "store [8, 3]"),
        (COLUMN, (8, 7, 3), np.zeros((8, 1), np.float32), "x[:, -1]"),
        (PICTURE, (8, 12), None, "rearrange(x, [batch, 4 * 3] -> [batch, 1, 4, 3])"),
        (CLIP, (5, 3), np.zeros(1, np.int64), "if these are 5 examples, declare x: [batch, 3]"),
        (CLIP, (5, 3), np.zeros(5, np.int64), "x: [batch, 3]"),
    ],
)
def test_data_of_another_shape_is_told_with_its_cure(
    wanted: InputSpec, x: tuple[int, ...], y: Array | None, cure: str
) -> None:
    given = {"x": np.zeros(x, np.float32)} | ({} if y is None else {"y": y})
    found = refused(wanted, tensors(**given)).report().help
    assert found is not None
    assert cure in f"{found.text} {found.code or ''}"


def test_rows_that_do_not_make_whole_examples_are_refused() -> None:
    demand = InputSpec({"x": f32(3 * BATCH)}, {"batch": 2})
    assert refused(demand, tensors(x=np.zeros(7, np.float32))).code == "E0523"


@pytest.mark.parametrize(
    "shape",
    [
        (2, BATCH),
        (BATCH, BATCH),
        (BATCH + 1, 2),
        (BATCH * BATCH,),
        (BATCH + (BATCH - 1) * (BATCH - 2),),
    ],
)
def test_inputs_that_cannot_be_cut_into_examples_are_refused(shape: tuple[Size, ...]) -> None:
    demand = InputSpec({"y": i32(BATCH), "x": f32(*shape)}, {"batch": 2})
    sizes = [size if isinstance(size, int) else 4 for size in shape]
    found = tensors(y=labels(4), x=np.zeros(sizes, np.float32))
    assert refused(demand, found).code == "E0527"


def test_every_value_is_looked_at_before_anything_runs() -> None:
    image = images(9)
    image[8, 0, 1, 2] = np.nan
    problem = refused(IMAGES, tensors(image=image, label=labels(9)))
    assert isinstance(problem, NotFinite)
    assert (problem.name, problem.index) == ("image", (8, 0, 1, 2))
    label = labels(9)
    label[5] = 2**40
    problem = refused(IMAGES, tensors(image=images(9), label=label))
    assert isinstance(problem, OutOfRange)
    assert (problem.name, problem.index, problem.value) == ("label", (5,), str(2**40))


# --- batches -------------------------------------------------------------------------------------


def test_an_epoch_s_order_is_a_permutation_that_seed_and_epoch_decide() -> None:
    first = order_of_epoch(3, 0, 100, shuffle=True)
    assert sorted(first) == list(range(100))
    np.testing.assert_array_equal(first, order_of_epoch(3, 0, 100, shuffle=True))
    assert not np.array_equal(first, order_of_epoch(3, 1, 100, shuffle=True))
    assert not np.array_equal(first, order_of_epoch(4, 0, 100, shuffle=True))
    assert list(order_of_epoch(3, 0, 5, shuffle=False)) == [0, 1, 2, 3, 4]


def test_the_order_of_an_epoch_never_changes_between_versions() -> None:
    assert list(order_of_epoch(0, 0, 8, shuffle=True)) == [0, 2, 1, 5, 4, 3, 6, 7]


def test_training_drops_the_incomplete_batch_and_evaluation_does_not() -> None:
    dataset = match(IMAGES, tensors(image=images(10), label=labels(10)))
    assert steps_of_epoch(dataset.train.examples, 4, drop_last=True) == 2
    assert list(runs(10, 4)) == [slice(0, 4), slice(4, 8), slice(8, 10)]
    with pytest.raises(ProblemError, match="E0526"):
        require_batch(dataset, 11)


def test_training_may_keep_the_incomplete_batch() -> None:
    assert [steps_of_epoch(examples, 4, drop_last=False) for examples in (0, 1, 4, 10)] == [
        0, 1, 1, 3,
    ]  # fmt: skip
    require_batch(match(IMAGES, tensors(image=images(10), label=labels(10))), 11, drop_last=False)
    with pytest.raises(ProblemError, match="E0526"):
        require_batch(match(IMAGES, tensors(image=images(0), label=labels(0))), 4, drop_last=False)


def test_a_held_out_split_without_examples_is_refused() -> None:
    held = {"test__image": images(0), "test__label": labels(0)}
    problem = refused(IMAGES, tensors(train__image=images(4), train__label=labels(4), **held))
    assert isinstance(problem, NothingHeldOut)


def test_no_two_epochs_have_the_same_order() -> None:
    orders = {
        tuple(order_of_epoch(seed, epoch, 50, shuffle=True).tolist())
        for seed in range(3)
        for epoch in range(6)
    }
    assert len(orders) == 3 * 6


@pytest.mark.parametrize(
    ("examples", "batch", "even"), [(360, 32, 30), (360, 64, 60), (10, 4, 4), (7, 4, 4), (3, 4, 3)]
)
def test_a_batch_without_remainder_is_found_if_it_is_not_much_smaller(
    examples: int, batch: int, even: int
) -> None:
    assert even_batch(examples, batch) == even


def test_an_even_batch_is_the_largest_of_more_than_half() -> None:
    for examples in range(1, 30):
        for batch in range(1, 30):
            even = [
                size
                for size in range(1, batch + 1)
                if examples % size == 0 and 2 * size > batch - batch % 2
            ]
            assert even_batch(examples, batch) == max(even, default=batch), (examples, batch)
