"""A process that runs the library `tokenizers` on a file that nobody trusts.

A small file may ask for any amount of work: normalizers and decoders that make much text of
little, templates of many tokens, expressions that backtrack, and what makes the library panic or
abort. The process takes no more memory than its limit, and who asks ends it after a time. Padding
and truncation of a file are left out: nothing here feeds several texts at once.
"""

import json
from array import array
from collections.abc import Mapping
from typing import Any, cast

from meganeura_runtime.support.optional_imports import load
from meganeura_runtime.support.worker_process import answer_questions

try:
    import resource
except ImportError:  # Windows has none
    resource = None

MOST_TOKENS = 32
"""Tokens of one byte of a text, beside `MOST_AROUND`; normal forms of Unicode make up to 18."""
MOST_AROUND = 1 << 10
"""Tokens around a text."""
MOST_TEXT = 1 << 24
"""Characters of the text of some tokens."""
LOAD, ENCODE, DECODE = "load", "encode", "decode"
IDS = "I"
"""Tokens as bytes: unsigned numbers of 32 bits."""

TOKENIZER: dict[str, Any] = {}
"""The one that was loaded, by its only name."""


def answer(asked: Mapping[str, object], content: bytes) -> bytes:
    """Load a tokenizer and give its size, or give the tokens of a text, or the text of tokens."""
    if asked["do"] == LOAD:
        _bound_memory(cast("int", asked["memory"]))
        library = load("tokenizers", "text", "read a tokenizer.json")
        TOKENIZER[LOAD] = library.Tokenizer.from_buffer(content)
        TOKENIZER[LOAD].no_padding()
        TOKENIZER[LOAD].no_truncation()
        return json.dumps(TOKENIZER[LOAD].get_vocab_size()).encode()
    if asked["do"] == ENCODE:
        found = TOKENIZER[LOAD].encode(content.decode(), add_special_tokens=asked["special"])
        if len(found) > MOST_TOKENS * len(content) + MOST_AROUND:
            raise ValueError(f"it makes {len(found):,} tokens of {len(content):,} bytes")
        return array(IDS, found.ids).tobytes()
    tokens = array(IDS, content).tolist()
    text = TOKENIZER[LOAD].decode(tokens)
    if len(text) > MOST_TEXT:
        raise ValueError(f"it makes {len(text):,} characters of {len(tokens):,} tokens")
    return text.encode(errors="replace")


def _bound_memory(most: int) -> None:
    """Let the process address so many bytes; one that is out of memory aborts and dumps no core."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    answer_questions(answer)
