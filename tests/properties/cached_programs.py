"""Random models with caches: what they give of a sequence at once, they give of it in parts.

A sequence of tokens `x: [n, s, 4]` is read from `position` on. Every statement lets a token see
itself and those before it alone, whether those stand in this call or in a cache.
"""

from random import Random

ALONE = ("x = tanh(x)", "x = sin(x)", "x = gelu(x)", "x = softmax(x)", "x = x |> silu", "x = -x")
"""Functions of each token alone."""
RECURRENT = (
    (
        ("cache {h}: [n, 4]",),
        ("  update {h} = tanh({keep} + {entry})", "  {y}[:, t] = {h}"),
        (),
    ),
    (
        ("cache {h}: [n, 4]", "g{h} = {h}"),
        ("  g{h} = tanh(0.5 * g{h} + {entry})", "  {y}[:, t] = g{h} * {entry}"),
        ("update {h} = g{h}",),
    ),
)
"""Before a scan over the tokens, its body, and behind it."""


def cached_model(random: Random, number: int) -> str:
    """A block with caches, and a model of it."""
    return _Cached(random, number).text()


class _Cached:
    """A block being written."""

    def __init__(self, random: Random, number: int) -> None:
        self.random = random
        self.number = number
        self.lines: list[str] = []
        self.labels = 0
        self.layers: list[str] = []

    def text(self) -> str:
        """The block and the model."""
        choices = (self.alone, self.attention, self.attention, self.recurrence, self.recurrence,
                   self.total, self.before, self.place, self.linear, self.given)  # fmt: skip
        for _ in range(self.random.randint(2, 5)):
            self.random.choice(choices)()
        if not any("position" in line for line in self.lines):
            self.place()
        name, act = f"C{self.number}", "act=tanh"
        given = self.random.choice(("", ", act=sin", ", act=silu")) if self.uses("act") else ""
        config = "capacity" + (f", {act}" if self.uses("act") else "")
        head = f"block {name}({config})(x: [n, s, 4], position: i32[]) -> [n, s, 4]"
        where = "    where 0 <= position, position + s <= capacity:"
        body = "\n".join(f"  {line}" for line in (*self.lines, "return x"))
        capacity = self.random.randint(4, 7)
        return (
            f"{head}\n{where}\n{body}\n\nmodel cached{self.number} = {name}({capacity}{given})\n\n"
            f"expect cached{self.number} maps [n, s, 4], i32[] -> [n, s, 4] where s <= {capacity}"
        )

    def uses(self, name: str) -> bool:
        return any(f"|> {name}" in line for line in self.lines)

    def write(self, *lines: str) -> None:
        self.lines += lines

    def label(self) -> str:
        self.labels += 1
        return f"part{self.labels}"

    def alone(self) -> None:
        self.write(self.random.choice(ALONE))

    def linear(self) -> None:
        """A layer, or one that was applied before."""
        if self.layers and self.random.random() < 0.5:
            self.write(f"x = x |> {self.random.choice(self.layers)}")
            return
        label = self.label()
        self.layers.append(label)
        layer = self.random.choice(("linear(4)", "layer_norm", "rms_norm"))
        if self.random.random() < 0.4:
            self.write(f"layer {label}: {layer}", f"x = x |> {label}")
        else:
            self.write(f"x = x |> {label}: {layer}")

    def given(self) -> None:
        """A block that the configuration gives."""
        self.write("x = x |> act")

    def attention(self) -> None:
        """Attention among the keys of all tokens so far."""
        number, heads = self.label(), self.random.choice((1, 2))
        width = 4 // heads
        split = f"rearrange([n, s, {heads} * e] -> [n, {heads}, s, e])"
        self.write(f"q{number} = x |> {split}")
        if self.random.random() < 0.4:
            self.write(f"q{number} = q{number} |> rope()(offset=position)")
        for name in ("keys", "values"):
            self.write(f"cache {name}{number}: [n, {heads}, capacity, {width}]")
            of = self.random.choice((f"q{number}", f"sin(q{number})"))
            self.write(f"update {name}{number}[:, :, position:position + s] = {of}")
        window = self.random.choice(("", "", ", window=2"))
        arguments = f"causal=true{window}, offset=position"
        self.write(
            f"x = attention(q{number}, keys{number}, values{number}, {arguments})",
            f"x = x |> rearrange([n, {heads}, s, e] -> [n, s, {heads} * e])",
        )

    def recurrence(self) -> None:
        """A scan whose carry is kept."""
        number = self.label()
        before, body, behind = self.random.choice(RECURRENT)
        names = {"h": f"h{number}", "y": f"y{number}", "entry": "x[:, t]"}
        names["keep"] = self.random.choice(("0.5 * {h}", "{h}", "sin({h})")).format(**names)
        if self.random.random() < 0.3:
            names["entry"] = f"(x[:, t] |> {number}: linear(4, bias=false))"
            body = (body[0], body[1].replace("{entry}", "x[:, t]"))
        lines = (*before, "scan t in 0..s:", *body, *behind, "x = {y}")
        self.write(*(line.format(**names) for line in lines))

    def total(self) -> None:
        """A running sum."""
        number = self.label()
        self.write(
            f"cache total{number}: [n, 4]",
            f"x = cumsum(x, 1) + insert_axis(total{number}, 1, s)",
            f"update total{number} = x[:, s - 1]",
        )

    def before(self) -> None:
        """The token before each."""
        number = self.label()
        self.write(
            f"cache last{number}: [n, 1, 4]",
            f"both{number} = concat(last{number}, x, axis=1)",
            f"update last{number} = both{number}[:, s:]",
            f"x = x - 0.5 * both{number}[:, :s]",
        )

    def place(self) -> None:
        """Uses the position of each token."""
        self.write("x = x + expand(f32(iota(s) + position), [s] -> [n, s, 4]) / 8")
