"""Messages between processes over a pipe: each is its length, and then its bytes."""

from collections.abc import Iterator
from typing import BinaryIO

LENGTH = 8
"""Bytes of the length of a message, the lowest first."""


def write_message(file: BinaryIO, content: bytes) -> None:
    """Write a message and its length."""
    file.write(len(content).to_bytes(LENGTH, "little"))
    file.write(content)


def messages(file: BinaryIO) -> Iterator[bytes]:
    """The messages up to the end of a file."""
    while len(length := file.read(LENGTH)) == LENGTH:
        yield file.read(int.from_bytes(length, "little"))
