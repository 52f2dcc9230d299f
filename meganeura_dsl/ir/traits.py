"""Declarations of op classes, so that no pass keeps a list of ops."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of an op, by name and in order.

    The optional ones follow the required ones, and each needs those before it. After all of them
    an op may take any number of `variadic` ones.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    variadic: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the required ones, then of the optional ones."""
        return self.required + self.optional

    @property
    def counts(self) -> tuple[int, ...]:
        """The possible numbers of operands of an op that is not variadic."""
        least = len(self.required)
        return tuple(range(least, least + len(self.optional) + 1))

    def accepts(self, count: int) -> bool:
        """True if an op may have so many."""
        least = len(self.required)
        return least <= count and (bool(self.variadic) or count <= least + len(self.optional))

    def __str__(self) -> str:
        return ", ".join(self._shown()) or "nothing"

    def _shown(self) -> Iterator[str]:
        yield from self.required
        yield from (f"[{name}]" for name in self.optional)
        if self.variadic:
            yield f"{self.variadic}..."


NOTHING = Operands()


class Trait(Enum):
    """The dependence of the elements of a result on those of the operands.

    They are the operator patterns of TVM (T. Chen et al., 2018), but finer where passes ask more.
    """

    LEAF = "leaf"
    """Given from outside under a name, and in memory."""
    GENERATOR = "generator"
    """An element follows from its index, and from nothing that has as many elements."""
    VIEW = "view"
    """An element is one of the only operand, so that a reader can look through the op."""
    MOVEMENT = "movement"
    """Elements, and zeros between them, change their position; nothing is computed."""
    ELEMENTWISE = "elementwise"
    """An element is computed from the elements of all operands at the same index."""
    GATHER = "gather"
    """An element is computed from a few elements of an operand, at indices of the op's choice."""
    REDUCTION = "reduction"
    """An element combines many elements of an operand, each of which is read a few times."""
    CONTRACTION = "contraction"
    """An element is a sum of products, and each element of an operand is in many of the sums."""
    ATTENTION = "attention"
    """Queries walk over keys and values, or keys over queries; no score is stored."""
    TRANSFORM = "transform"
    """Small squares of elements are multiplied with constant matrices."""
    LOOP = "loop"
    """A graph is run again and again, each iteration on what the one before it left."""

    __hash__ = object.__hash__  # members are singletons; the hash of `Enum` is a Python function


Traits = frozenset[Trait]

ANCHORS: Traits = frozenset(
    (Trait.REDUCTION, Trait.CONTRACTION, Trait.ATTENTION, Trait.TRANSFORM, Trait.LOOP)
)
"""An op with one of these gets a kernel, which others may be fused into; a loop, several."""
PRODUCTS: Traits = frozenset((Trait.CONTRACTION, Trait.ATTENTION))
"""An op with one of these reads each element of its operands many times."""


class ElementCost(Enum):
    """The cost of one more element of a value where it is read, without its operands' elements.

    A device has a price for each (`recompute_cost`).
    """

    FREE = "free"
    """Only the index changes, or the element follows from it."""
    SIMPLE = "simple"
    """An addition, a comparison and their like."""
    ROOT = "root"
    """A division or a square root."""
    TRANSCENDENTAL = "transcendental"
    """An exponential and its like."""
    LOAD = "load"
    """A load from memory: the value is stored, or its element is looked up."""

    __hash__ = object.__hash__
