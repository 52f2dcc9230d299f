"""The syntax tree: one frozen dataclass per form of the language, each with its span.

Nodes compare by identity, so that a node can key a table of what was learned about it.
"""

from dataclasses import dataclass
from functools import cached_property

from meganeura_dsl.diagnostics.source import Source, Span


@dataclass(frozen=True, eq=False)
class Node:
    """Anything that was written at one place."""

    span: Span


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Name(Node):
    """`x`"""

    text: str


@dataclass(frozen=True, eq=False)
class Integer(Node):
    """`1_500`"""

    value: int


@dataclass(frozen=True, eq=False)
class Real(Node):
    """`1e-5`"""

    value: float


@dataclass(frozen=True, eq=False)
class Text(Node):
    """Text in double quotes, such as the name of a data set."""

    value: str


@dataclass(frozen=True, eq=False)
class Boolean(Node):
    """`true` or `false`"""

    value: bool


@dataclass(frozen=True, eq=False)
class ListOf(Node):
    """`[2, 4, 14, 1]`"""

    items: tuple["Expression", ...]


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """`-x` or `not p`; `operator` is `-` or `not`."""

    operator: str
    operand: "Expression"


@dataclass(frozen=True, eq=False)
class Binary(Node):
    """`a + b`; `operator` is one of `+ - * / // % @ ** == != < <= > >= and or`."""

    operator: str
    left: "Expression"
    right: "Expression"
    operator_span: Span


@dataclass(frozen=True, eq=False)
class Conditional(Node):
    """`then if condition else otherwise`"""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"


@dataclass(frozen=True, eq=False)
class Attribute(Node):
    """`wte.weight`: a parameter of a labelled layer, or of this block, by its path."""

    base: "Expression"
    name: str


@dataclass(frozen=True, eq=False)
class Range(Node):
    """`start:stop` inside brackets; either end may be left out."""

    start: "Expression | None"
    stop: "Expression | None"


@dataclass(frozen=True, eq=False)
class EllipsisEntry(Node):
    """`...` inside brackets: all axes that no other entry stands for, whole."""


@dataclass(frozen=True, eq=False)
class Subscript(Node):
    """`depths[0]`, `depths[:s]`, `x[:, 0]`, `x[..., 0]`: one entry per axis, from the first."""

    base: "Expression"
    entries: tuple["Entry", ...]


@dataclass(frozen=True, eq=False)
class Spliced(Node):
    """`weight_hh_l{k}`: a parameter whose name ends with a number or a text that is computed."""

    base: "Expression"
    value: "Expression"


@dataclass(frozen=True, eq=False)
class Argument(Node):
    """`stride=2`, or without a name a positional argument."""

    name: str | None
    value: "Expression | Rearrangement"


@dataclass(frozen=True, eq=False)
class Call(Node):
    """`conv2d(64, 3)`, `cross_entropy(logits, label)`, `Up(c)(skip)`, or after a pipe just `relu`.

    `arguments` are the first brackets, `inputs` the second. `label` is the parameter path before
    the colon, only ever present after a pipe or in a `model` declaration. `path` is what is applied
    if that is written as a label with numbers: `x |> layers[i]`.
    """

    label: "Path | None"
    callee: str
    callee_span: Span
    arguments: tuple[Argument, ...]
    inputs: tuple[Argument, ...]
    path: "Path | None" = None


@dataclass(frozen=True, eq=False)
class Pipe(Node):
    """`x |> layer`"""

    source: "Expression"
    layer: Call


@dataclass(frozen=True, eq=False)
class Rearrangement(Node):
    """`[n, s, heads * hd] -> [n, heads, s, hd]`, an argument of `rearrange` or `expand`."""

    source: "Pattern"
    target: "Pattern"


Expression = (
    Name | Integer | Real | Text | Boolean | ListOf | Unary | Binary | Conditional
    | Attribute | Subscript | Spliced | Call | Pipe
)  # fmt: skip
AxisEntry = Expression | Range
"""An entry for one axis in the brackets of a subscript."""
Entry = AxisEntry | EllipsisEntry


# --- paths and types -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Splice(Node):
    """`{i + 1}` in a path: a number or a text that joins the word before it."""

    value: Expression


@dataclass(frozen=True, eq=False)
class Path(Node):
    """`head.fc`, `layers[i]`, `block{i + 1}`, `[0]`: words, indices and splices, in order.

    The label `.` has none: it is the path of the block it stands in.
    """

    parts: tuple["str | Expression | Splice", ...]


@dataclass(frozen=True, eq=False)
class Rest(Node):
    """`...batch`: any number of axes under one name."""

    name: str


@dataclass(frozen=True, eq=False)
class Pattern(Node):
    """`[n, c, down(h, 2)]`: a shape as written, each entry a size expression or one rest."""

    entries: tuple["Expression | Rest", ...]


@dataclass(frozen=True, eq=False)
class Type(Node):
    """`i32[n]`; `dtype` is None where it was left out and so is f32."""

    dtype: str | None
    shape: Pattern


# --- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bind(Node):
    """`y = e`, `mu, logvar = e`, `gh = h // window`"""

    targets: tuple[Name, ...]
    value: Expression


@dataclass(frozen=True, eq=False)
class If(Node):
    """A static choice; `otherwise` is empty where there is no `else`."""

    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]


@dataclass(frozen=True, eq=False)
class For(Node):
    """`for i in start..stop:`"""

    variable: Name
    start: Expression
    stop: Expression
    body: tuple["Statement", ...]


@dataclass(frozen=True, eq=False)
class Part(Node):
    """`y[:, t] = e`: a part of a tensor, one entry per axis, from the first."""

    target: Name
    entries: tuple["Entry", ...]
    value: Expression


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """`scan t in start..stop while going:`, all iterations of which have one body."""

    variable: Name
    start: Expression
    stop: Expression
    condition: Expression | None
    body: tuple["Statement", ...]


@dataclass(frozen=True, eq=False)
class Repeat(Scan):
    """`repeat k in start..stop:`, a scan whose iterations minimize."""


@dataclass(frozen=True, eq=False)
class Return(Node):
    """`return mu, logvar`"""

    values: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Declare(Node):
    """`param weight: [c] = ones`; `kind` is `param`, `frozen param`, `state`, `cache`."""

    kind: str
    path: Path
    type: Type
    initial: Expression | None


@dataclass(frozen=True, eq=False)
class Layer(Node):
    """`layer tower: linear(d)`: a layer declared before it is applied; the call has the label.

    `layer target: Net = online` begins as a copy of another layer.
    """

    call: Call
    source: "Path | None" = None


@dataclass(frozen=True, eq=False)
class Update(Node):
    """`update running_mean = e`: the value of a state or cache after this step.

    With entries, as in `update keys[:, p:p + k] = e`, a part of it is replaced.
    """

    path: Path
    value: Expression
    entries: tuple["Entry", ...] = ()


@dataclass(frozen=True, eq=False)
class Minimize(Node):
    """`minimize e`, or `minimize e over PATH, PATH`: an objective, and what it moves."""

    value: Expression
    over: tuple[Path, ...]
    """The paths of what it moves; none if it moves all that its gradient reaches."""


@dataclass(frozen=True, eq=False)
class Project(Node):
    """`project critic = e`: the tensors of a layer become this after their move."""

    path: Path
    value: Expression


@dataclass(frozen=True, eq=False)
class Metric(Node):
    """`metric accuracy = e`"""

    name: Name
    value: Expression


@dataclass(frozen=True, eq=False)
class Show(Node):
    """`show digits = e`"""

    name: Name
    value: Expression


@dataclass(frozen=True, eq=False)
class Setting(Node):
    """`batch = 64` under `run:`, or for some paths, `optimizer["*.bias"] = adamw()`."""

    name: Name
    glob: str | None
    value: Expression


@dataclass(frozen=True, eq=False)
class Run(Node):
    """`run:` and its settings"""

    settings: tuple[Setting, ...]


Statement = (
    Bind
    | Part
    | If
    | For
    | Scan
    | Return
    | Declare
    | Layer
    | Update
    | Minimize
    | Project
    | Metric
    | Show
    | Run
)
TrainStatement = Repeat | Minimize | Project | Metric | Show | Run
"""A statement that only a `train` block may contain."""


# --- declarations --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Result(Type):
    """A result of a block: its type, `[n, c]`, and perhaps a name before it, `logits: [n, c]`."""

    name: str | None = None


@dataclass(frozen=True, eq=False)
class NamedKind(Node):
    """`bool`, `list[3]`: what a config parameter takes, by a word and perhaps a length."""

    name: str
    length: Expression | None


@dataclass(frozen=True, eq=False)
class TextKind(Node):
    """`"mean" or "max"`: a config parameter takes one of these texts."""

    options: tuple[Text, ...]


@dataclass(frozen=True, eq=False)
class BlockKind(Node):
    """`block`, or `block()(x: [n, d]) -> [n, d]`: a config parameter takes a block.

    `header` is a block without a body, which says what a block that is given has to fit.
    """

    header: "Block | None"


ConfigKind = NamedKind | TextKind | BlockKind


@dataclass(frozen=True, eq=False)
class Parameter(Node):
    """One config parameter: `stride=1`, `causal: bool = false` or `norm: block = batch_norm`."""

    name: str
    kind: ConfigKind | None
    default: Expression | None


@dataclass(frozen=True, eq=False)
class Input(Node):
    """One tensor a block or a `train` takes: `x: [n, c, h, w]`, `mask: bool[s, t] = true`."""

    name: str
    type: Type
    whole: bool = False
    """True if a `train` feeds all of it at every step."""
    default: "Expression | None" = None
    """The default of an optional input: a tensor, or a number or truth value for all elements."""
    of: Name | None = None
    """The size that counts examples, where a `train` has the first size once for each of them."""


@dataclass(frozen=True, eq=False)
class Import(Node):
    """`from resnet import down, Stage`; `module` holds the dotted words."""

    module: tuple[str, ...]
    names: tuple[Name, ...]


@dataclass(frozen=True, eq=False)
class Def(Node):
    """`def down(h, s) = (h - 1) // s + 1`"""

    name: Name
    parameters: tuple[Parameter, ...]
    body: Expression


@dataclass(frozen=True, eq=False)
class Block(Node):
    """A block; `results` is None where the result type was left out.

    A one-line body, `block twice()(x: [...s]) -> [...s] = x + x`, becomes a single `Return`.
    """

    name: Name
    parameters: tuple[Parameter, ...]
    inputs: tuple[Input, ...]
    results: tuple[Result, ...] | None
    where: tuple[Expression, ...]
    body: tuple[Statement, ...]

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the results, in order; none if they have none."""
        return tuple(each.name for each in self.results or () if each.name is not None)


@dataclass(frozen=True, eq=False)
class Optimizer(Node):
    """`optimizer heavy(lr: real)(p: [...s], g: [...s]) -> [...s]:`, which moves a parameter.

    The first input is the parameter, the second its gradient.
    """

    name: Name
    parameters: tuple[Parameter, ...]
    inputs: tuple[Input, ...]
    results: tuple[Result, ...] | None
    where: tuple[Expression, ...]
    body: tuple[Statement, ...]

    @cached_property
    def rule(self) -> Block:
        """The block that computes a move, of which the learning rate is the last input, a scalar.

        Schedules change it from step to step, so that it is no number of a configuration.
        """
        rates = tuple(each for each in self.parameters if each.name == RATE)
        fed = (
            Input(each.span, RATE, Type(each.span, None, Pattern(each.span, ()))) for each in rates
        )
        given = tuple(each for each in self.parameters if each.name != RATE)
        return Block(
            self.span, self.name, given, (*self.inputs, *fed), self.results, self.where, self.body
        )


RATE = "lr"
"""The name of the learning rate among the parameters of an optimizer."""


@dataclass(frozen=True, eq=False)
class Model(Node):
    """`model resnet18 = ResNet(depths=[2, 2, 2, 2])`; the call may carry a label."""

    name: Name
    call: Call


@dataclass(frozen=True, eq=False)
class Train(Node):
    """A `train` block: inputs from the data, a loss, metrics and settings."""

    name: Name
    inputs: tuple[Input, ...]
    where: tuple[Expression, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class Count(Node):
    """`62 params` in an `expect`; `unit` is what was written after the number."""

    number: int
    unit: str


@dataclass(frozen=True, eq=False)
class ExpectHas(Node):
    """`expect resnet18 has 62 params, 11_689_512 weights`"""

    call: Call
    counts: tuple[Count, ...]


@dataclass(frozen=True, eq=False)
class Held(Node):
    """`fc.weight: [1000, 512]` in an `expect`: a parameter or state, and its shape."""

    path: Path
    type: Type


@dataclass(frozen=True, eq=False)
class ExpectHolds(Node):
    """`expect resnet18 holds conv1.weight: [64, 3, 7, 7], fc.bias: [1000]`"""

    call: Call
    tensors: tuple[Held, ...]


@dataclass(frozen=True, eq=False)
class ExpectMaps(Node):
    """`expect resnet18 maps [n, 3, h, w] -> [n, 1000] where h >= 32`"""

    call: Call
    inputs: tuple[Type, ...]
    results: tuple[Result, ...]
    where: tuple[Expression, ...]


Expect = ExpectHas | ExpectHolds | ExpectMaps
Declaration = Import | Def | Block | Optimizer | Model | Train | Expect


@dataclass(frozen=True, eq=False)
class Module:
    """All that one file declares, in order."""

    source: Source
    declarations: tuple[Declaration, ...]
    unread: frozenset[str] = frozenset()
    """The names of declarations that could not be read."""
