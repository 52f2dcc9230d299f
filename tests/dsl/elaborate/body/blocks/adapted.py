"""Blocks that take blocks, a program around them, and the codes and names of a program."""

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import elaborate_model

ADAPTED = """
block Mlp(hidden, act=gelu, fc=linear)(x: [...b, d]) -> [...b, d]:
  return x |> fc1: fc(hidden) |> act |> fc2: fc(d)

block lora(out, r=8, base=linear)(x: [...b, d]) -> [...b, out]:
  y = x |> .: base(out)
  param lora_A: [r, d] = kaiming_uniform()
  param lora_B: [out, r] = zeros
  return y + x @ rearrange(lora_A, [r, d] -> [d, r]) @ rearrange(lora_B, [out, r] -> [r, out])

block Outer(act=tanh, fc=linear)(x: [n, d]) -> [n, d]:
  return x |> mlp: Mlp(4 * d, act, fc)
"""


def codes(text: str) -> list[str]:
    """The codes of what is said about a program."""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    return [report.code for report in result.reports]


def names(text: str, model: str = "net") -> list[str]:
    """The names of what a model of a program holds."""
    program = pipeline.check(Source("net.mgn", text), lambda _: None).program
    return [info.name for info in elaborate_model(program, model).parameters]


def in_net(body: str, blocks: str = ADAPTED) -> str:
    """A program whose model has this body."""
    return f"{blocks}\nblock Net()(x: [n, 8]) -> [n, 8]:\n{body}\nmodel net = Net()\n"
