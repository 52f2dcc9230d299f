"""The confusion matrix and the mistakes of a classifier, which each evaluation shows."""

from collections.abc import Iterator

from meganeura_dsl.ir.graph import Graph, Value, continued
from meganeura_dsl.ir.ops import ArgMax, Broadcast, Cast, Compare, Constant, Div, Iota, Mul, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.outputs import Judged, Shown
from meganeura_dsl.ir.types import DType

CONFUSION = Shown("confusion")
LABELS, LOGITS = Judged("labels"), Judged("logits")
MOST_CLASSES = 50
"""Classes of a matrix that shows itself: so many can be read on a page."""


def with_confusion(graph: Graph) -> Graph:
    """The graph of an evaluation that also shows its confusion matrix, if it is of a classifier.

    It is one where the program compares labels i32[n] with `argmax(logits, 1)` of logits
    f32[n, classes], as the metric accuracy does. The output f32[classes, classes] has a row for
    each label and a column for each prediction: shares of all examples, as `confusion_matrix` of
    the standard library. A program that shows a `confusion` of its own keeps that.

    The labels and the logits are outputs, too, by which its mistakes are found.
    """
    if next(_comparisons(graph), None) is None:
        return graph
    labels, predicted = next(_comparisons(graph))
    judged = {LABELS: labels, LOGITS: predicted.operands[0]}
    graph = Graph(graph.values, {**graph.outputs, **judged}, graph.updates)
    if CONFUSION in graph.outputs:
        return graph
    build, graph = continued(graph)
    labels, predicted = next(_comparisons(graph))
    examples, classes = concrete_shape(predicted.operands[0].type.shape)
    numbers = build.add(Broadcast((examples, classes), (1,)), build.add(Iota(classes)))

    def one_hot(ids: Value, axis: int) -> Value:
        """1 at the class of each example, over the axes (example, label, prediction)."""
        spread = build.add(Broadcast((examples, classes), (0,)), ids)
        picked = build.add(Cast(DType.F32), build.add(Compare("eq"), spread, numbers))
        return build.add(Broadcast((examples, classes, classes), (0, axis)), picked)

    both = build.add(Mul(), one_hot(labels, 1), one_hot(predicted, 2))
    count = build.add(Constant(float(examples), DType.F32))
    shares = build.add(
        Div(), build.add(Sum((0,)), both), build.add(Broadcast((classes, classes), ()), count)
    )
    return build.graph({**graph.outputs, CONFUSION: shares}, graph.updates)


def _comparisons(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """Labels, and the classes that they are compared with."""
    for value in graph.values:
        match value.op:
            case Compare(kind="eq"):
                first, second = value.operands
                for labels, predicted in ((first, second), (second, first)):
                    if _is_choice(predicted) and not isinstance(labels.op, ArgMax):
                        yield labels, predicted
            case _:
                pass


def _is_choice(value: Value) -> bool:
    """Returns True for the index of the largest of few logits of each example."""
    if value.op != ArgMax(1):
        return False
    shape = concrete_shape(value.operands[0].type.shape)
    return len(shape) == 2 and 2 <= shape[1] <= MOST_CLASSES
