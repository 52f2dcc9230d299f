"""Random `train` blocks with several objectives, of functions without kinks.

An objective reads the layers that it moves as they are, and others frozen, detached or not. So its
slope in what it moves is that of its loss.
"""

from random import Random

PROJECTED = 0.5
"""The factor of every `project`."""
SMOOTH = ("tanh", "sin", "sigmoid", "softplus", "cos")
NETS = """\
block Deep(hidden, act=tanh)(x: [n, 3]) -> [n, 3]:
  return x |> fc1: linear(hidden) |> act |> fc2: linear(3)

block Walk(iterations: size = 2)(x: [n, 3]) -> [n, 3]:
  layer step: linear(3)
  h = 0.5 * x
  scan t in 0..rounds:
    h = tanh(h |> step) + x / f32(t + 1)
    y[:, t] = h
  return sum(y, 1) + h

block Counted()(x: [n, 3]) -> [n, 3]:
  state seen: [] = zeros
  if training:
    update seen = 0.5 * seen + mean(x)
  return (x + tanh(seen)) |> fc: linear(3)
"""
LAYERS = (
    "linear(3)",
    "Deep(2)",
    "Deep(4, act=sin)",
    "Walk()",
    "Walk(3)",
    "Counted()",
    "layer_norm",
)


def training_program(random: Random) -> str:
    """Blocks, and a `train` block of two to four objectives."""
    names = [f"part{number}" for number in range(random.randint(2, 4))]
    lines = [f"layer {name}: {random.choice(LAYERS)}" for name in names]
    models: list[str] = []
    if random.random() < 0.4:
        models.append("model net = net: Deep(3)\n")
        names.append("net")
    if random.random() < 0.3:
        lines.append("param shift: [3] = zeros")
    shifted = " + expand(shift, [3] -> [batch, 3])" if "param" in lines[-1] else ""
    lines.append(f"u = sin(x){shifted}")
    moved = random.sample(names, random.randint(1, len(names)))
    before: list[str] = []
    for number, name in enumerate(moved):
        others = [each for each in names if each != name]
        both = number + 1 == len(moved) and bool(shifted) and random.random() < 0.5
        loss = f"loss{number}"
        lines.append(f"{loss} = {_loss(random, name, others, before)}")
        if both and random.random() < 0.5:
            lines.append(f"{loss} = {loss} + mean(shift * shift)")
        over = f"{name}, shift" if both else name
        lines.append(f"minimize {loss} over {over}")
        before.append(loss)
        if random.random() < 0.3:
            lines.append(f"project {name} = {PROJECTED} * {name}")
        if random.random() < 0.3:
            lines.append(f"u = u |> {name}")
        if random.random() < 0.3:
            lines.append(f"metric m{number} = mean(u |> {random.choice(names)})")
    if random.random() < 0.3 and names[0] != "net":
        layer = lines[0].partition(": ")[2]
        lines[1:1] = [f"layer slow: {layer} = {names[0]}"]
        lines.append("metric slow = mean(u |> slow(training=false, frozen=true))")
        lines.append(f"update slow = 0.75 * slow + 0.25 * {names[0]}")
    lines += [f"metric use_{name} = mean(u |> {name})" for name in names]
    body = "\n".join(f"  {line}" for line in lines)
    return f"{NETS}\n{''.join(models)}\ntrain fit(x: [batch, 3]):\n{body}\n"


def _loss(random: Random, name: str, others: list[str], before: list[str]) -> str:
    """A number that depends on a layer, and perhaps on others and on losses before it."""
    flow = "u"
    for _ in range(random.randint(0, 2)):
        if others and random.random() < 0.6:
            other = random.choice(others)
            mode = random.choice(("", "", "(frozen=true)", "(training=false, frozen=true)"))
            flow = f"({flow} |> {other}{mode})"
            flow = f"stop_gradient{flow}" if random.random() < 0.3 else flow
        else:
            flow = f"{random.choice(SMOOTH)}({flow})"
    flow = f"({flow} |> {name})"
    for _ in range(random.randint(0, 2)):
        if others and random.random() < 0.4:
            mode = random.choice(("", "(frozen=true)"))
            flow = f"({flow} |> {random.choice(others)}{mode})"
        elif random.random() < 0.3:
            flow = f"({flow} |> {name})"
        else:
            flow = f"{random.choice(SMOOTH)}({flow})"
    weight = (
        f" * stop_gradient({random.choice(before)})" if before and random.random() < 0.3 else ""
    )
    return f"mean({flow} * {flow}){weight}" if random.random() < 0.5 else f"mean({flow}){weight}"
