"""The layers of the library that are functions of JAX, with equal meaning."""

from collections.abc import Callable

from meganeura_runtime.export.source.library_use import Functions, Use
from meganeura_runtime.export.source.text import Code, call


def _plain(function: str) -> Callable[[Use], Code]:
    return lambda use: call(function, use.tensor("x"))


def _along_axis(function: str) -> Callable[[Use], Code]:
    def apply(use: Use) -> Code:
        axis = use.config("axis", "-1")
        return call(function, use.tensor("x"), **({} if axis.text == "-1" else {"axis": axis}))

    return apply


FUNCTIONS: Functions = {
    "relu": _plain("jax.nn.relu"),
    "sigmoid": _plain("jax.nn.sigmoid"),
    "silu": _plain("jax.nn.silu"),
    "gelu": lambda use: call("jax.nn.gelu", use.tensor("x"), approximate="False"),
    "gelu_tanh": _plain("jax.nn.gelu"),
    "softplus": _plain("jax.nn.softplus"),
    "log_sigmoid": _plain("jax.nn.log_sigmoid"),
    "glu": _plain("jax.nn.glu"),
    "elu": lambda use: call("jax.nn.elu", use.tensor("x"), use.config("alpha", "1.0")),
    "softmax": _along_axis("jax.nn.softmax"),
    "log_softmax": _along_axis("jax.nn.log_softmax"),
}
"""Others, such as `relu6`, have another slope at a kink there."""
