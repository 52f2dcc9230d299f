"""Random blocks that take gradients, each with a scalar and its slope along its own way.

`eps` moves what a gradient is taken with respect to, along a direction that is known: so the slope
that the gradient gives is the derivative of the scalar by `eps`, whatever else the block computes.
"""

from random import Random

NETS = """\
block Smooth(hidden)(x: [n, 3]) -> [n, 3]:
  return x |> fc1: linear(hidden) |> tanh |> fc2: linear(3)

block Turned()(x: [n, 3]) -> [n, 3]:
  layer step: linear(3)
  h = 0.5 * x
  scan t in 0..2:
    h = tanh(h |> step) + x / f32(t + 1)
  return h

block Leveled()(x: [n, 3]) -> [n, 3] = x |> fc: linear(3) |> norm: layer_norm

block Counted()(x: [n, 3]) -> [n, 3]:
  state seen: [] = ones
  frozen param shift: [3] = ones
  update seen = 0.5 * seen
  return (x * seen + shift) |> fc: linear(3) |> sin
"""
LAYERS = ("Smooth(2)", "Smooth(4)", "Turned()", "Leveled()", "Counted()", "linear(3)")
FUNCTIONS = ("tanh", "sin", "sigmoid", "softplus", "cos")
SCALARS = ("mean({} ** 2)", "sum(sin({}))", "mean(tanh({}) * 0.5)", "sum(exp(-{} ** 2))")
MIXES = (
    "u = softmax(u @ rearrange(u, [a, b] -> [b, a])) @ u",
    "u = cumsum(u, 1) / 3",
    "u, _at = sort(u, 1)",
    "u = 0.1 * cumprod(tanh(u), 1) + u",
    "u = u + insert_axis(max(u, 1), 1, 3)",
    "u = gather(u, constant([2, 0, 0]), axis=1)",
    "u[:, 0] = sin(u[:, 1])",
)


def gradient_program(random: Random) -> str:
    """Blocks, and the block `Slope` with its scalar and the slope of it."""
    return _Writer(random).text()


class _Writer:
    """The block being written: `u: [n, 3]` is what has been computed so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.parts = [f"part{number}" for number in range(random.randint(1, 3))]
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        self.lines += [f"layer {each}: {self.random.choice(LAYERS)}" for each in self.parts]
        # Weights are made where a layer is applied first.
        self.lines += [f"u{each} = x |> {each}" for each in self.parts]
        self.lines.append(f"u = x + 0.1 * ({' + '.join(f'u{each}' for each in self.parts)})")
        self.flow(self.random.randint(0, 2))
        forms = (self.value, self.value, self.weights, self.weights, self.iteration)
        form = self.random.choice(forms)
        scalar, slope = form()
        depth = self.random.randint(1, 3)
        body = "\n".join(f"  {line}" for line in self.lines)
        config = f"depth={depth}" if "depth" in body else ""
        where = "\n    where depth >= 1" if "scan _i in 0..depth" in body else ""
        header = f"block Slope({config})(x: [n, 3], eps: []) -> [], []{where}:"
        return f"{NETS}\n{header}\n{body}\n  return {scalar}, {slope}\n"

    def flow(self, count: int) -> None:
        """Some statements that compute `u` anew."""
        forms = (self.function, self.layer, self.mix, self.step, self.steps, self.trained)
        for _ in range(count):
            self.random.choice(forms)()

    def scalar(self, of: str) -> str:
        return self.random.choice(SCALARS).format(of)

    def name(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    # --- what is differentiated ------------------------------------------------------------------

    def value(self) -> tuple[str, str]:
        """The gradient by a name that is bound on the way."""
        # No gradient that is taken below goes on through `y`: it would depend on `eps` by itself.
        self.lines += ["u = stop_gradient(u)", "base = cos(u)", "y = u + eps * base", "u = y"]
        if self.random.random() < 0.5:
            self.lines.append("u = u * sin(y)")
        self.flow(self.random.randint(0, 3))
        self.lines.append(f"s = {self.scalar('u')}")
        return "s", "sum(grad(s, y) * base)"

    def weights(self) -> tuple[str, str]:
        """The gradient by weights that a layer is applied with."""
        part = self.random.choice(self.parts)
        self.lines += [
            f"own = stop_gradient(weights({part}))",
            "base = cos(own)",
            "w = own + eps * base",
        ]
        for _ in range(self.random.randint(1, 2)):
            self.lines.append(f"u = u |> {part}(weights=w)")
            self.flow(self.random.randint(0, 2))
        self.lines.append(f"s = {self.scalar('u')}")
        if self.random.random() < 0.3:
            self.lines.append("s = s + 0.01 * sum(w ** 2)")
        return "s", "sum(grad(s, w) * base)"

    def iteration(self) -> tuple[str, str]:
        """The gradient of an iteration of a scan, by what the iteration binds."""
        part, iterations = self.random.choice(self.parts), self.random.randint(1, 3)
        function = self.random.choice(FUNCTIONS)
        inner = self.random.choice((f"{function}(v)", f"v |> {part}", f"{function}(v |> {part})"))
        self.lines += [
            f"scan t in 0..{iterations}:",
            "  base = cos(u)",
            "  v = u + eps * base",
            f"  s = {self.scalar(f'({inner})')}",
            "  all_s[t] = s",
            "  slopes[t] = sum(grad(s, v) * base)",
            f"  u = {self.random.choice(('tanh(u)', f'u |> {part}', 'u + sin(u)'))}",
        ]
        return "sum(all_s)", "sum(slopes)"

    # --- statements ------------------------------------------------------------------------------

    def function(self) -> None:
        self.lines.append(f"u = {self.random.choice(FUNCTIONS)}(u)")

    def layer(self) -> None:
        self.lines.append(f"u = u |> {self.random.choice(self.parts)}")

    def mix(self) -> None:
        self.lines.append(self.random.choice(MIXES))

    def step(self) -> None:
        """A step along a gradient, which is differentiated again."""
        inner = self.random.choice(("u", f"(u |> {self.random.choice(self.parts)})"))
        self.lines.append(f"u = u - 0.1 * grad({self.scalar(inner)}, u)")

    def steps(self) -> None:
        """Steps in a loop or in a scan."""
        loop = self.random.choice(
            ("for _i in 0..2:", "for _i in 0..depth:", "scan _i in 0..depth:")
        )
        self.lines.append(loop)
        self.step()
        self.lines[-1] = f"  {self.lines[-1]}"

    def trained(self) -> None:
        """A layer with the weights that some steps lead to."""
        part, w = self.random.choice(self.parts), self.name("w")
        self.lines.append(f"{w} = {self.random.choice(('1.0 * ', ''))}weights({part})")
        loop = self.random.choice(
            ("for _i in 0..2:", "for _i in 0..depth:", "scan _i in 0..depth:")
        )
        cost = self.scalar(f"(u |> {part}(weights={w}))")
        self.lines += [loop, f"  {w} = {w} - 0.1 * grad({cost}, {w})"]
        if self.random.random() < 0.3:
            self.lines.append(f"{w} = {self.random.choice(('tanh', 'stop_gradient', 'sin'))}({w})")
        self.lines.append(f"u = u |> {part}(weights={w})")
