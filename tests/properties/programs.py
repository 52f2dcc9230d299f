"""Random .mgn programs that are meant to be well typed.

A program is written statement by statement. The writer keeps the shape it believes each value has,
as texts of sizes, so that it can state result types, `where` clauses and sums that hold. What the
checker thinks of the result is for the properties to see.
"""

import re
from random import Random

from tests.properties.cached_programs import cached_model
from tests.properties.gradient_programs import gradient_program
from tests.properties.random_scans import scan_lines
from tests.properties.training_programs import training_program

ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "softplus", "softmax", "gelu_tanh", "log_softmax")
FUNCTIONS = ("tanh", "sin", "cos", "abs", "exp", "erf")
ORDERS = (
    "cumsum(x, {axis})",
    "cumprod(tanh(x), {axis})",
    "cummax(x, {axis})",
    "cummin(x, axis={axis})",
    "linear_recurrence(sin(x), x, {axis})",
    "x, _order = sort(x, {axis})",
    "x, _order = sort(x, {axis}, descending=true)",
    "x * f32(argsort(x, {axis}) % 2 + 1)",
    "x * sign(x) + round(x)",
)
WRITES = (
    "x[..., 0] = tanh(x[..., -1])",
    "x[0, ..., :1] = 2 * x[-1, ..., -1:]",
    "x[:, 0] = tanh(x[:, 0])",
    "x[:, :1] = 2 * x[:, :1]",
    "x[:, argmax(sum(x, 0, 2), 0)] = 0.5",
    "x = x * mean(x[:, argmax(sum(x, 0, 2), 0)])",
)
GRADIENTS = ("sum(sin(x) * x)", "mean(softplus(x))", "mean(tanh(x) ** 2)", "sum(gelu(x))")
MODES = ("training=false", "frozen=true", "training=false, frozen=true")
BLOCKS = ("tanh", "sin", "gelu", "softmax", "relu")
"""Arguments of a parameter that takes a block."""
CACHED, TRAINED, GRADED = 0.1, 0.07, 0.1
"""Shares of programs that have a model with caches, a `train` block, and a block of gradients."""
DEFS = (
    "def down(h, s) = (h - 1) // s + 1",
    "def half(x) = x // 2",
    "def wide(c, m) = c * m if m > 1 else c",
)

Shape = list[str]


class Writer:
    """A program being written."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.blocks: list[tuple[str, str, bool]] = []
        """Blocks so far: name, kind, and whether `c` says how many channels to give."""

    def program(self) -> str:
        """A whole program."""
        parts = [self.random.choice(DEFS)] if self.chance(0.3) else []
        for index in range(self.random.randint(1, 3)):
            kind = self.random.choice(("image", "tokens", "rows"))
            block = Block(self, f"B{index}", kind)
            parts.append(block.text())
            self.blocks.append((block.name, kind, "c" in block.used()))
            if block.is_closed and self.chance(0.7):
                given = [f"c={self.random.randint(1, 4)}"] if "c" in block.used() else []
                if "act=tanh" in block.config and "act" in block.used() and self.chance(0.5):
                    given.append(f"act={self.random.choice(BLOCKS)}")
                parts.append(f"model net{index} = {block.name}({', '.join(given)})")
        if self.chance(CACHED):
            parts.append(cached_model(self.random, len(parts)))
        if self.chance(TRAINED):
            parts.append(training_program(self.random))
        if self.chance(GRADED):
            parts.append(gradient_program(self.random))
        return "\n\n".join(parts) + "\n"

    def chance(self, of: float) -> bool:
        """True so often."""
        return self.random.random() < of


INPUTS: dict[str, tuple[Shape, ...]] = {
    "image": (["n", "c_in", "h", "w"], ["n", "3", "h", "w"], ["n", "c", "h", "h"]),
    "tokens": (["n", "s", "d"], ["n", "s", "4"], ["...batch", "6"], ["n", "s", "heads * 4"]),
    "rows": (["n", "d"], ["n", "3"], ["...batch", "d"], ["n", "2 * m"]),
}
CONFIG = (
    *("bias=true", "k=3", "stride=1", "depth=2", "groups=1", "p=0.1", "ratio=2", "causal=false"),
    *('mode="wide"', "widths=[2, 3]", "shift=-1", "act=tanh", "fc=linear"),
)
KINDS = {
    "c": "size", "bias": "bool", "k": "size", "stride": "size", "depth": "size", "groups": "size",
    "p": "real", "ratio": "size", "causal": "bool", "mode": '"wide" or "deep"',
    "widths": "list[2]", "shift": "int", "act": "block()(x: [...s]) -> [...s]",
}  # fmt: skip
"""The kind of each name's configuration, if a program states one."""
CLOSED = re.compile(r"\d+|heads \* 4")


class Block:
    """A block being written: its statements, its facts, and the shape of `x` as it stands."""

    def __init__(self, writer: Writer, name: str, kind: str) -> None:
        self.writer = writer
        self.random = writer.random
        self.name = name
        self.kind = kind
        self.config = ["c", *self.random.sample(CONFIG, self.random.randint(0, 3))]
        self.input = list(self.random.choice(INPUTS[kind]))
        self.shape = list(self.input)
        self.where: list[str] = []
        self.lines: list[str] = []
        self.labels = 0
        self.indent = 1
        self.saved: list[tuple[str, Shape]] = []
        self.body = ""
        if "heads * 4" in self.input:
            self.config.append("heads=2")

    def text(self) -> str:
        """The block, its last statement a return."""
        for _ in range(self.random.randint(1, 5)):
            self.statement()
        end = self.end()
        self.lines.append(end)
        results = f" -> [{', '.join(self.shape)}]" if self.random.random() < 0.6 else ""
        where = f"\n    where {', '.join(dict.fromkeys(self.where))}" if self.where else ""
        self.body = "\n".join((f"(x: [{', '.join(self.input)}]){results}{where}:", *self.lines))
        used = self.used()
        config = [self.declared(each) for each in self.config if each.partition("=")[0] in used]
        return f"block {self.name}({', '.join(config)}){self.body}"

    def declared(self, parameter: str) -> str:
        """A parameter as a signature has it, sometimes with its kind, and then without default."""
        name, _, default = parameter.partition("=")
        kind = KINDS.get(name)
        is_needed = name == "widths"  # a list of unknown length is proved in no block
        if kind is None or (not is_needed and self.random.random() < 0.6):
            return parameter
        return f"{name}: {kind} = {default}" if default else f"{name}: {kind}"

    def used(self) -> set[str]:
        """The names that occur in the text."""
        return set(re.findall(r"[A-Za-z_]\w*", self.body))

    @property
    def is_closed(self) -> bool:
        """True if no weight depends on the size of an input, so that a model can be made of it."""
        channels = self.input[1] if self.kind == "image" else self.input[-1]
        return CLOSED.fullmatch(channels) is not None

    def end(self) -> str:
        """The last line, which uses what was kept."""
        while self.saved:
            name, shape = self.saved.pop()
            if shape == self.shape and self.random.random() < 0.8:
                self.write(f"x = x + {name}")
            else:
                self.write(f"x = x * mean({name})")
        return "  return x"

    # --- statements ------------------------------------------------------------------------------

    def statement(self) -> None:
        """One more statement or two."""
        common = (
            self.activation,
            self.function,
            self.arithmetic,
            self.keep,
            self.shared,
            self.given,
            self.guarded,
            self.order,
            self.gradient,
        )
        special = {
            "image": (
                self.convolution,
                self.norm,
                self.pool,
                self.upsample,
                self.concat,
                self.loop,
                self.growth,
                self.skips,
            ),
            "tokens": (
                self.linear,
                self.layer_norm,
                self.slice,
                self.last,
                self.attention,
                self.gram,
                self.scan,
            ),
            "rows": (
                self.linear,
                self.layer_norm,
                self.split,
                self.concat,
                self.parameter,
                self.last,
            ),
        }[self.kind]
        self.random.choice((*common, *special, *special, self.another))()

    def write(self, line: str) -> None:
        """A line at the present indentation."""
        self.lines.append("  " * self.indent + line)

    def label(self) -> str:
        """A path no other layer has."""
        self.labels += 1
        if self.random.random() < 0.1:
            return f"parts[{self.labels}]"
        if self.random.random() < 0.1:
            return f'part{{{self.labels}}}{{"_a"}}'
        return f"layer{self.labels}"

    def option(self, name: str, value: str) -> str:
        """An argument: the configuration of that name if there is one, or else the value."""
        known = any(parameter.startswith(f"{name}=") for parameter in self.config)
        return name if known else value

    def activation(self) -> None:
        name = self.random.choice(ACTIVATIONS)
        self.write(self.random.choice((f"x = x |> {name}", f"x = {name}(x)")))

    def function(self) -> None:
        self.write(f"x = {self.random.choice(FUNCTIONS)}({self.random.choice(('x', '-x'))})")

    def arithmetic(self) -> None:
        shift = self.option("shift", "3")
        number = self.random.choice(("2", "0.5", "1 / 3", "-1", "c", f"({shift})"))
        operator = self.random.choice("+-*/")
        self.write(
            f"x = {self.random.choice((f'x {operator} {number}', f'{number} * x', 'x ** 2'))}"
        )

    def keep(self) -> None:
        """A value for later; sums with it hold where no shape changed in between."""
        name = f"kept{len(self.lines)}"
        self.write(f"{name} = {self.random.choice(('x', 'relu(x)', '0.1 * x'))}")
        self.saved.append((name, list(self.shape)))

    def shared(self) -> None:
        """A layer that is declared, and applied twice."""
        label, size = self.label(), self.shape[1 if self.kind == "image" else -1]
        layer = f"conv2d({size}, 1)" if self.kind == "image" else f"linear({size})"
        self.write(f"layer {label}: {layer}")
        if self.random.random() < 0.3:
            number = self.label().split("[")[0].split("{")[0]
            self.write("for i in 0..2:")
            self.write(f"  x = x |> {number}[i]: {layer}")
            self.write(f"x = x |> {number}[{self.random.choice(('0', '1', '2 - 1'))}]")
        mode = f"({self.random.choice(MODES)})" if self.random.random() < 0.3 else ""
        self.write(f"x = x |> {label} |> {self.random.choice(BLOCKS)} |> {label}{mode}")

    def given(self) -> None:
        """A block that the configuration gives."""
        if "act=tanh" in self.config:
            self.write(self.random.choice(("x = x |> act", "x = act(x)", "x = x + (x |> act)")))
        if "fc=linear" in self.config and self.kind != "image":
            self.write(f"x = x |> {self.label()}: fc({self.shape[-1]})")

    def mode(self, before: str = "") -> str:
        """Arguments for a part that is evaluated or frozen, as an application takes them."""
        chosen = self.random.choice(MODES) if self.random.random() < 0.15 else ""
        joined = ", ".join(each for each in (before, chosen) if each)
        return f"({joined})" if joined else ""

    def guarded(self) -> None:
        """A static choice; where shapes change in it, the paths do not join."""
        conditions = [
            name
            for parameter, name in (
                *(("bias", "bias"), ("depth", "depth > 1"), ("k", "k == 3")),
                *(("mode", 'mode == "wide"'), ("shift", "shift < 0"), ("widths", "widths[0] > 2")),
            )
            if any(each.startswith(f"{parameter}=") for each in self.config)
        ]
        if not conditions or self.indent > 2:
            return
        self.write(f"if {self.random.choice(conditions)}:")
        self.indent += 1
        self.activation()
        self.indent -= 1
        if self.random.random() < 0.5:
            self.write("else:")
            self.indent += 1
            self.function()
            self.indent -= 1

    def another(self) -> None:
        """A block of the same kind written before."""
        known = [block for block in self.writer.blocks if block[1] == self.kind]
        if known:
            name, _, gives = self.random.choice(known)
            self.write(f"x = x |> {self.label()}: {name}{self.mode('c' if gives else '')}")
            if gives:
                self.shape[-1 if self.kind != "image" else 1] = "c"

    def order(self) -> None:
        """Adds an op along an axis that keeps the shape."""
        form = self.random.choice(ORDERS).format(axis=self.random.choice(("-1", "0")))
        self.write(form if form.startswith("x, ") else f"x = {form}")

    def gradient(self) -> None:
        """A step along a gradient: by the value itself, or by the weights of a layer."""
        if self.random.random() < 0.5:
            form = self.random.choice(GRADIENTS)
            loop = self.random.choice(("", "", f"for _j in 0..{self.option('depth', '2')}:"))
            if loop:
                self.write(loop)
            self.write(("  " if loop else "") + f"x = x - 0.1 * grad({form}, x)")
            return
        label, size = self.label(), self.shape[1 if self.kind == "image" else -1]
        layer = f"conv2d({size}, 1)" if self.kind == "image" else f"linear({size})"
        if "{" in label or "[" in label:
            return
        y, w = f"y{len(self.lines)}", f"w{len(self.lines)}"
        self.write(f"{y} = x |> {label}: {layer}")
        self.write(f"{w} = weights({label}) - 0.1 * grad(mean({y} ** 2), weights({label}))")
        self.write(f"x = x |> {label}(weights={w})")

    # --- images ----------------------------------------------------------------------------------

    def convolution(self) -> None:
        kernel = self.random.choice(("1", "3", self.option("k", "3"), "2"))
        stride = self.random.choice(("1", "2", self.option("stride", "1")))
        groups = self.option("groups", "1")
        pad = self.random.choice((f"{kernel} // 2", "0", "1"))
        if groups != "1":
            self.where += [f"c % {groups} == 0", f"{self.shape[1]} % {groups} == 0"]
        sizes = self.shape[2:]
        for size in sizes:
            if pad != "1" or kernel not in ("1", "2", "3"):
                self.where.append(f"{size} + 2 * ({pad}) >= {kernel}")
        arguments = f"c, {kernel}, {stride}, pad={pad}, groups={groups}"
        self.write(f"x = x |> {self.label()}: conv2d({arguments})")
        out = [f"({size} + 2 * ({pad}) - {kernel}) // {stride} + 1" for size in sizes]
        self.shape = [self.shape[0], "c", *out]

    def norm(self) -> None:
        layer = self.random.choice((f"batch_norm{self.mode()}", "batch_norm", "group_norm(1)"))
        self.write(f"x = x |> {self.label()}: {layer}")

    def pool(self) -> None:
        pool = self.random.choice(("max_pool", "avg_pool"))
        window = self.random.choice((2, 3))
        stride = self.random.choice((1, 2, window))
        self.where += [f"{size} >= {window}" for size in self.shape[2:]]
        self.write(f"x = x |> {pool}({window}, {stride})")
        out = [f"({size} - {window}) // {stride} + 1" for size in self.shape[2:]]
        self.shape = [*self.shape[:2], *out]

    def upsample(self) -> None:
        scale = self.option("ratio", "2")
        self.write(f"x = x |> upsample({scale})")
        self.shape = [*self.shape[:2], *(f"({size}) * {scale}" for size in self.shape[2:])]

    def concat(self) -> None:
        axis = 1 if self.kind == "image" or not self.shape[0].startswith("...") else 0
        self.write(f"x = concat(x, 2 * x, axis={axis})")
        if not self.shape[0].startswith("..."):
            self.shape[axis] = f"2 * ({self.shape[axis]})"

    def loop(self) -> None:
        count = self.option("depth", str(self.random.randint(1, 3)))
        self.write(f"for i in 0..{count}:")
        self.labels += 1
        label = f"loop{self.labels}"
        self.indent += 1
        index = self.random.choice(("[i]", "{i + 1}", "s.norm{2 * i}"))
        self.write(f"x = x |> {label}{index}: batch_norm")
        self.indent -= 1

    def growth(self) -> None:
        """A loop in which the channels grow by the same step."""
        count = self.option("depth", str(self.random.randint(1, 3)))
        step = self.random.choice(("1", "2", "c"))
        self.labels += 1
        convolution = f"grow{self.labels}{{i}}: conv2d({step}, 1)"
        self.write(f"for i in 0..{count}:")
        self.indent += 1
        self.write(f"x = concat(x, x |> {convolution}, axis=1)")
        self.indent -= 1
        self.shape[1] = f"{self.shape[1]} + {count} * {step}"

    def skips(self) -> None:
        """Joins values of iterations behind them."""
        iterations = self.random.randint(1, 3)
        name = f"list{len(self.lines)}"
        self.write(f"{name} = {self.random.choice(('[]', '[x] + []'))}")
        self.write(f"for i in 0..{iterations}:")
        self.indent += 1
        self.write("x = tanh(x)")
        self.write(f"{name} = {name} + [x]")
        self.indent -= 1
        index = self.random.choice((f"{name}[-1]", f"{name}[len({name}) - 1]", f"{name}[0]"))
        self.write(f"x = {index} + x * mean(concat({name}, axis=1))")

    # --- tokens and rows -------------------------------------------------------------------------

    def linear(self) -> None:
        bias = self.random.choice(("", f", bias={self.option('bias', 'false')}"))
        width = self.option("widths", "c").replace("widths", "widths[1]")
        self.write(f"x = x |> {self.label()}: linear({width}{bias})")
        self.shape[-1] = width

    def layer_norm(self) -> None:
        layer = self.random.choice(("layer_norm", "rms_norm"))
        self.write(f"x = x |> {self.label()}: {layer}")

    def slice(self) -> None:
        if len(self.shape) != 3:
            return
        if self.random.random() < 0.4:
            self.write(self.random.choice(WRITES))
            return
        form, size = self.random.choice((("1:", "{} - 1"), (":1", "1")))
        if form == "1:":
            self.where.append(f"{self.shape[1]} >= 2")
        self.write(f"x = x[:, {form}]")
        self.shape[1] = size.format(f"({self.shape[1]})")

    def last(self) -> None:
        """A part of the last axis, whatever comes before it."""
        form, size = self.random.choice(
            (("1:", "({}) - 1"), (":1", "1"), ("-1:", "1"), (":", "{}"))
        )
        if form == "1:":
            self.where.append(f"{self.shape[-1]} >= 2")
        self.write(f"x = x[..., {form}]")
        self.shape[-1] = size.format(self.shape[-1])

    def attention(self) -> None:
        if len(self.shape) != 3:
            return
        n, s, d = self.shape
        heads = self.random.choice(("1", "2", self.option("ratio", "2")))
        self.where.append(f"({d}) % {heads} == 0")
        causal = self.random.choice(("", f", causal={self.option('causal', 'true')}"))
        self.write(f"q = x |> rearrange([{n}, s0, {heads} * hd0] -> [{n}, {heads}, s0, hd0])")
        bias = self.random.choice(
            ("", "", ", bias=q @ rearrange(q, [a, b, c0, e] -> [a, b, e, c0])")
        )
        self.write(f"x = attention(q, q, q{causal}{bias})")
        self.write(f"x = x |> rearrange([{n}, {heads}, s0, hd0] -> [{n}, s0, {heads} * hd0])")
        self.shape = [n, s, d]

    def gram(self) -> None:
        if len(self.shape) != 3:
            return
        self.write("x = softmax(x @ rearrange(x, [a, b, e] -> [a, e, b])) @ x")

    def scan(self) -> None:
        """A scan over the second axis."""
        if len(self.shape) != 3:
            return
        n, s, d = self.shape
        found = scan_lines(self.random, len(self.lines), (n, s, d), self.label)
        self.where += found.where
        for line in found.lines:
            self.write(line)
        self.shape[1] = found.size

    def split(self) -> None:
        if len(self.shape) != 2:
            return
        d = self.shape[-1]
        self.where.append(f"({d}) % 2 == 0")
        half = f"({d}) // 2"
        self.write(f"x = x[:, :{half}] * sigmoid(x[:, {half}:])")
        self.shape[-1] = half

    def parameter(self) -> None:
        name = f"scale{len(self.lines)}"
        if self.random.random() < 0.3:
            name = f"scale{{{len(self.lines)}}}"
        size = self.shape[-1]
        if re.search(r"[dnsm]", size):
            return
        self.write(f"param {name}: [{size}] = ones")
        self.write(f"x = x * {name}")


def program(random: Random) -> str:
    """A random program."""
    return Writer(random).program()
