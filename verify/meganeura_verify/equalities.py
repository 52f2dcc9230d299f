"""Nodes of graphs, and which of them are equal: a union-find that is closed under congruence.

A node is `(op, operands, attributes, type)`. Two nodes of one op, with equal attributes, one type
and equal operands are equal. Nothing is ever searched here.
"""

from collections.abc import Hashable, Iterable

from meganeura_verify import CertificateError, require
from meganeura_verify.terms import NODE_TAGS, Value

Node = tuple[str, tuple[int, ...], tuple[Value, ...], Value]


class Equalities:
    """Nodes by number, and the facts that were stated of them, as rows of tables."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.rows: dict[str, list[tuple[Value, ...]]] = {}
        self._parent: list[int] = []
        self._index: dict[Hashable, int] = {}
        self._users: dict[int, list[int]] = {}
        """The nodes that have an operand of a class, by its root."""
        self._places: dict[str, dict[Hashable, int]] = {}
        """The places of rows, by what was canonical when it was last looked for in vain."""
        self._looked: dict[str, int] = {}
        self._joins = 0

    def root(self, number: int) -> int:
        """The number that stands for all nodes equal to one."""
        parent = self._parent
        if type(number) is not int or not 0 <= number < len(parent):
            raise CertificateError(f"no node {number}")
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    def canonical(self, value: Value) -> Value:
        """A value in which each node is the one that stands for its equals."""
        if not isinstance(value, tuple) or not value or value[0] not in NODE_TAGS:
            return value
        tag, numbers = value
        return (tag, self.root(numbers) if tag == NODE_TAGS[0] else tuple(map(self.root, numbers)))

    def type_of(self, number: int) -> Value:
        """The type of a node."""
        return self.nodes[self.root(number)][3]

    def find(self, node: Node) -> int | None:
        """A node that is equal to this one by its operands, if there is one."""
        return self._index.get(self._key(node))

    def make(self, node: Node) -> int:
        """The number of a node, which is added if there is none like it."""
        key = self._key(node)
        if key in self._index:
            return self._index[key]
        number = len(self.nodes)
        self.nodes.append(node)
        self._parent.append(number)
        self._index[key] = number
        for operand in dict.fromkeys(map(self.root, node[1])):
            self._users.setdefault(operand, []).append(number)
        return number

    def join(self, left: int, right: int, reason: object = None) -> None:
        """State that two nodes are equal, and so all that are alike but for them."""
        waiting: list[tuple[int, int, object]] = [(left, right, reason)]
        while waiting:
            left, right, reason = waiting.pop()
            kept, gone = sorted((self.root(left), self.root(right)))
            if kept == gone:
                continue
            require(self.nodes[kept][3] == self.nodes[gone][3], "two types were made equal")
            self._joins += 1
            self.linked(left, right, reason)
            self._parent[gone] = kept
            users = self._users.pop(gone, [])
            self._users.setdefault(kept, []).extend(users)
            for user in users:
                other = self._index.setdefault(self._key(self.nodes[user]), user)
                waiting.append((user, other, None))

    def linked(self, left: int, right: int, reason: object) -> None:
        """Hear of two classes that become one: for a reason, or by congruence without one."""

    def state(self, table: str, row: Iterable[Value]) -> None:
        """Add a row to a table."""
        rows = self.rows.setdefault(table, [])
        rows.append(tuple(row))
        self._places.setdefault(table, {}).setdefault(self._row_key(rows[-1]), len(rows) - 1)

    def place(self, table: str, row: tuple[Value, ...]) -> int | None:
        """The place of a row in a table, up to what is equal; None if it is not there."""
        wanted = self._row_key(row)
        found = self._places.get(table, {}).get(wanted)
        if found is None and self._looked.get(table) != self._joins:
            rows = enumerate(self.rows.get(table, ()))
            self._places[table] = {self._row_key(each): place for place, each in rows}
            self._looked[table] = self._joins
            found = self._places[table].get(wanted)
        return found

    def _row_key(self, row: tuple[Value, ...]) -> Hashable:
        return tuple(map(_typed, map(self.canonical, row)))

    def _key(self, node: Node) -> Hashable:
        op, operands, attributes, of = node
        return op, tuple(map(self.root, operands)), tuple(map(_typed, attributes)), of


def _typed(value: Value) -> tuple[type, Value]:
    """A value that differs from any of another type: 1 from 1.0 and from true."""
    return type(value), value
