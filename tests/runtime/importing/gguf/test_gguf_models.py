"""GGUF files become programs with the same numbers, and what is damaged or unknown is refused."""

import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import meganeura
from fuzz.gguf_models import (
    BF16,
    ENTRIES,
    F16,
    F32,
    Q4_0,
    Q4_K,
    Q6_K,
    Q8_0,
    drawn_tensors,
    gguf,
    gguf_models,
)
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.gguf.block_types import BLOCK_TYPES
from meganeura_runtime.importing.gguf.llama import PARTS
from meganeura_runtime.importing.importers import import_model
from meganeura_runtime.importing.onnx.importing import Imported
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.quantized_tensors import read_weights

IDS = (np.arange(12, dtype=np.int32) * 7).reshape(2, 6)
Tensors = dict[str, tuple[Array, int]]


def imported(content: bytes, folder: Path) -> Imported:
    (folder / "Tiny model.gguf").write_bytes(content)
    return import_model(folder / "Tiny model.gguf", folder / "tiny.mgn")


def opened(made: Imported) -> meganeura.Model:
    return meganeura.load(str(made.program)).model(weights=made.weights)


def logits(model: meganeura.Model) -> Array:
    return model.run({"ids": IDS}, device="cpu")["output"]


def names(layers: int = 2) -> dict[str, str]:
    """The tensor that each parameter is."""
    found = {"model.embed_tokens.weight": "token_embd.weight"}
    found["model.norm.weight"] = "output_norm.weight"
    for layer in range(layers):
        for part, path in PARTS.items():
            found[f"model.layers.{layer}.{path}.weight"] = f"blk.{layer}.{part}.weight"
    return found


def permuted(weight: Array, heads: int) -> Array:
    """The rows of each head in the order in which neighbours are turned."""
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def test_logits_are_those_of_the_model_that_was_written(tmp_path: Path) -> None:
    model = meganeura.load("lm_tiny").model("lm_tiny", seed=0)
    tensors: Tensors = {}
    for parameter, name in names().items():
        heads = {"attn_q": 4, "attn_k": 2}.get(name.split(".")[-2], 0)
        value = np.asarray(model.values[parameter])
        tensors[name] = (permuted(value, heads) if heads else value, F32)
    made = imported(gguf(ENTRIES, tensors), tmp_path)
    assert len(made.trained) == len(tensors)
    found = opened(made)
    np.testing.assert_array_equal(logits(found), logits(model))
    again = meganeura.load("lm_tiny").model("lm_tiny", weights=made.weights)
    np.testing.assert_array_equal(logits(again), logits(model))
    texts = ["".join(each.generate("ab", steps=4, device="cpu")) for each in (found, model)]
    assert texts[0] == texts[1]


def test_levels_stay_packed_with_the_scales_of_the_file(tmp_path: Path) -> None:
    tensors = drawn_tensors([Q8_0, Q4_0, F16, BF16])
    made = imported(gguf(ENTRIES, tensors), tmp_path)
    stored, kinds = read_weights(made.weights), {Q8_0: "8-bit", Q4_0: "4-bit"}
    parameters = {name: parameter for parameter, name in names().items()}
    for name, (array, kind) in tensors.items():
        found = stored[parameters[name]]
        assert found.kind == kinds.get(kind, "f32")
        wanted = array
        for part, heads in (("attn_q", 4), ("attn_k", 2)):
            if part in name:
                wanted = array.reshape(heads, -1, 2, 64).swapaxes(1, 2).reshape(array.shape)
        close = {Q8_0: 0.005, Q4_0: 0.09, F16: 3e-4, BF16: 8e-3}.get(kind, 0)
        assert np.abs(found.bits - wanted).max() <= close * np.abs(wanted).max()
    assert {stored[each].kind for each in made.packed} == {"8-bit", "4-bit"}
    assert not made.unpacked
    model = opened(made)
    for name, tensor in stored.items():
        np.testing.assert_array_equal(model.values[name], tensor.bits)
        if tensor.quantization is not None:
            assert tensor.quantization.represents(tensor.bits)


@pytest.mark.parametrize(
    ("kind", "halves", "checksum"),
    [
        (F32, (3,), 1159252905), (F16, (1,), 1558692), (Q4_0, (1,), 19295385),
        (Q8_0, (1,), 3479815608), (Q4_K, (1, 3), 1130970737), (Q6_K, (209,), 1416770344),
        (BF16, (1,), 1610242618),
    ],
)  # fmt: skip
def test_blocks_hold_what_ggml_says(kind: int, halves: tuple[int, ...], checksum: int) -> None:
    """Checksums of the numbers that `gguf.quants` 0.19.0 makes of the same random bytes."""
    of = BLOCK_TYPES[kind]
    blocks = np.random.default_rng(kind).integers(0, 256, (40, of.bytes), np.uint8)
    for at in halves:
        blocks[:, at] &= 0x3B  # so that scales are finite
    values, scales = of.unpack(blocks)
    if scales is not None:
        values = values.reshape(*scales.shape, -1) * scales[..., None]
    assert zlib.crc32(np.ascontiguousarray(values, "<f4").tobytes()) == checksum


@pytest.mark.parametrize(
    ("kind", "halves", "packed"), [(Q6_K, (209,), True), (Q4_K, (1, 3), False)]
)
def test_levels_of_6_bits_are_packed_and_those_above_a_minimum_are_not(
    kind: int,
    halves: tuple[int, ...],
    packed: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    of, random = BLOCK_TYPES[kind], np.random.default_rng(0)
    blocks = random.integers(0, 256, (64, of.bytes), np.uint8)
    for at in halves:
        blocks[:, at] &= 0x3B
    tensors = drawn_tensors([F32], layers=1)
    for part in ("gate", "up"):
        tensors[f"blk.0.ffn_{part}.weight"] = (np.ones((256, 64), np.float32), F32)
    tensors["blk.0.ffn_down.weight"] = (blocks, kind)
    entries = {**ENTRIES, "llama.feed_forward_length": 256, "llama.block_count": 1}
    stated, meant = (struct.pack("<IQQ", 2, each, 64) for each in (of.bytes, 256))
    made = imported(gguf(entries, tensors).replace(stated, meant), tmp_path)
    name = ["model.layers.0.mlp.down_proj.weight"]
    assert (made.packed, made.unpacked) == ((name, []) if packed else ([], name))


def test_a_head_and_biases_are_read(tmp_path: Path) -> None:
    """The third file has an output table and biases; the last is of qwen2, and turns halves."""
    _, biased, *_, qwen = gguf_models()
    text = imported(biased, tmp_path).program.read_text()
    assert "x |> lm_head: linear(vocabulary, bias=false)" in text
    assert "q_proj: linear(heads * head_dim)\n" in text
    made = imported(qwen, tmp_path)
    llama = gguf_models()[-2]
    np.testing.assert_array_equal(
        opened(made).values["model.layers.0.self_attn.v_proj.weight"],
        opened(imported(llama, tmp_path)).values["model.layers.0.self_attn.v_proj.weight"],
    )


def changed(**entries: object) -> Mapping[str, object]:
    return {**ENTRIES, **{f"llama.{name.replace('__', '.')}": each for name, each in
                          entries.items()}}  # fmt: skip


def without(name: str) -> Tensors:
    return {each: value for each, value in drawn_tensors([F32]).items() if each != name}


def reason(content: bytes, folder: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        imported(content, folder)
    problem = caught.value.problem
    assert isinstance(problem, UnreadableFile)
    assert not (folder / "tiny.mgn").exists()
    return problem.reason


@pytest.mark.parametrize(
    ("entries", "tensors", "said"),
    [
        ({**ENTRIES, "general.architecture": "mamba"}, None, "architecture is `mamba`, and llama"),
        ({"general.name": "x"}, None, "architecture is `None`"),
        ({**ENTRIES, "general.alignment": 0}, None, "`general.alignment` is no number"),
        (changed(rope__scaling__type="yarn"), None, "`llama.rope.scaling.type` is yarn, which"),
        (changed(expert_count=8), None, "`llama.expert_count` is 8"),
        (changed(logit_scale=2.0), None, "`llama.logit_scale` is 2.0"),
        (changed(attention__head_count=[4, 4]), None, r"head_count` is [4, 4], and no number"),
        (changed(attention__head_count=0), None, "head_count` is 0, and no number"),
        (changed(attention__head_count_kv=3), None, "4 heads of 16 share 3"),
        (changed(rope__dimension_count=8), None, "is not the size of a head, 16"),
        (changed(block_count=3), None, "it has no tensor `blk.2.attn_k.weight`"),
        (changed(vocab_size=7), None, "is not the size of its table"),
        (changed(feed_forward_length=64), None, "`blk.0.ffn_gate.weight` is [128, 64], and its"),
        (ENTRIES, without("output_norm.weight"), "it has no tensor `output_norm.weight`"),
        (ENTRIES, {**drawn_tensors([F32]), "rope_freqs.weight": (np.ones(8), F32)},
         "nothing for its tensor `rope_freqs.weight`"),
        (ENTRIES, {"a": (np.zeros(24, np.uint8), 13)}, "`a` holds Q5_K, and F32, F16, Q4_0"),
        (ENTRIES, {"a": (np.zeros(24, np.uint8), 77)}, "`a` holds type 77"),
        (ENTRIES, {"a": (np.zeros(24, np.uint8), Q8_0)}, "no whole blocks of Q8_0"),
        (ENTRIES, {**drawn_tensors([F32]), "output_norm.weight": (np.full(64, np.inf), F32)},
         "`output_norm.weight` holds what is no finite number"),
    ],
)  # fmt: skip
def test_what_the_program_cannot_say_is_named(
    entries: Mapping[str, object], tensors: Tensors | None, said: str, tmp_path: Path
) -> None:
    content = gguf(entries, drawn_tensors([F32]) if tensors is None else tensors)
    assert said in reason(content, tmp_path)


HEAD = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack("<Q", 1) + b"a"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda content: b"GGML" + content[4:], "it is no GGUF file"),
        (lambda content: content[:4] + struct.pack("<I", 1) + content[8:], "its version is 1"),
        (lambda content: content[:4] + struct.pack(">I", 3) + content[8:], "it is big-endian"),
        (lambda content: content[:3], "it is cut short"),
        (lambda content: content[:500], "it is cut short"),
        (lambda content: content[:-40], "it ends before `blk.1.ffn_down.weight` does"),
        (lambda content: content[:8] + struct.pack("<Q", 1 << 60) + content[16:], "tensors"),
        (lambda _: HEAD + struct.pack("<IIQ", 9, 0, 1 << 40), "more than 1,048,576 items"),
        (lambda _: HEAD + struct.pack("<IIQ", 9, 9, 1), "an array of the metadata holds arrays"),
        (lambda _: HEAD + struct.pack("<I", 13), "has the type 13"),
        (lambda _: HEAD + struct.pack("<IQ", 8, 1 << 62), "a text of it has"),
    ],
)
def test_a_damaged_file_is_refused(
    spoil: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    assert said in reason(spoil(gguf(ENTRIES, drawn_tensors([F32]))), tmp_path)


def test_no_size_of_a_file_is_open(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(gguf(ENTRIES, drawn_tensors([F32])))
    with pytest.raises(ProblemError, match="leaves no size open") as caught:
        import_model(tmp_path / "a.gguf", tmp_path / "a.mgn", {"n": 3})
    assert isinstance(caught.value.problem, UnreadableFile)
