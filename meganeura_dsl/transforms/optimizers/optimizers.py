"""The optimizers. To add one, write its class in its own file and list it in `OPTIMIZERS`.

A class is all there is to an optimizer: its fields are the arguments of `optimizer = name(...)`,
with their defaults and bounds; its docstring is what `meganeura explain name` prints; `update`
builds its rule.
"""

from meganeura_dsl.transforms.optimizers.adafactor import Adafactor
from meganeura_dsl.transforms.optimizers.adagrad import Adagrad
from meganeura_dsl.transforms.optimizers.adam import Adam, AdamW, Lamb
from meganeura_dsl.transforms.optimizers.lion import Lion
from meganeura_dsl.transforms.optimizers.muon import Muon
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.rmsprop import RmsProp
from meganeura_dsl.transforms.optimizers.sgd import Sgd

__all__ = [
    "OPTIMIZERS",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lamb",
    "Lion",
    "Muon",
    "Optimizer",
    "RmsProp",
    "Sgd",
]

OPTIMIZERS: dict[str, type[Optimizer]] = {
    each.word: each for each in (Sgd, Adam, AdamW, RmsProp, Adagrad, Lion, Lamb, Adafactor, Muon)
}
"""Every optimizer, by the word that names it."""
