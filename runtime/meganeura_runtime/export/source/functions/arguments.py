"""The arguments of a built-in function."""

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code


class Arguments:
    """The arguments of a built-in function, by place and by name."""

    def __init__(self, writer: BlockWriter, node: ast.Call, piped: ast.Expression | None) -> None:
        self.writer = writer
        self.node = node
        self.places: list[ast.Expression | ast.Rearrangement] = [] if piped is None else [piped]
        self.named: dict[str, ast.Expression | ast.Rearrangement] = {}
        for each in (*node.arguments, *node.inputs):
            if each.name is None:
                self.places.append(each.value)
            else:
                self.named[each.name] = each.value

    def node_at(self, place: int, name: str = "") -> ast.Expression | None:
        """The expression of an argument; None if it was not given."""
        found = self.places[place] if place < len(self.places) else self.named.get(name)
        assert not isinstance(found, ast.Rearrangement)
        return found

    def tensor(self, place: int) -> Code:
        """The text of a tensor."""
        found = self.node_at(place)
        assert found is not None
        return self.writer.whole(found)

    def static(self, place: int, name: str, default: str = "") -> Code:
        """The text of a number."""
        found = self.node_at(place, name)
        return Code(default) if found is None else self.writer.static(found, "forward")

    def number(self, place: int, name: str, default: int | None = None) -> int:
        """A number that is always the same."""
        found = self.node_at(place, name)
        if found is None:
            assert default is not None
            return default
        values = {each for each in self.writer.seen.values(found) if isinstance(each, int)}
        if len(values) != 1:
            raise refuse(self.node, f"`{name}` is another number each time")
        return values.pop()

    def rank(self, place: int = 0) -> int:
        """The rank of a tensor."""
        found = self.node_at(place)
        assert found is not None
        return self.writer.seen.type_of(found).rank

    def dtype(self, place: int = 0) -> DType:
        """The element type of a tensor."""
        found = self.node_at(place)
        assert found is not None
        return self.writer.seen.type_of(found).dtype

    @property
    def whole(self) -> ast.Expression:
        """The node of the call itself, or of the pipe around it."""
        found = self.writer.pipes(self.node)
        return found[0] if found else self.node
