"""Certificates of optimizations: found for every model tried, right, and refused once spoilt.

A spoilt certificate that is accepted must still be true: both of its graphs are evaluated then.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from meganeura_verify import CertificateError
from meganeura_verify.__main__ import main
from meganeura_verify.runs import FORMAT, Replay, check_runs, read_nodes, read_rules

from fuzz.json_mutants import json_mutant
from meganeura.cli.driver.stages import compiled_model, compiled_step
from meganeura_dsl import pipeline
from meganeura_dsl.ir.cost_model import DeviceModel
from meganeura_dsl.ir.types import example_sizes
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.transforms.egraph import optimize
from meganeura_dsl.transforms.egraph.certificates.chain_search import ChainSearch
from meganeura_dsl.transforms.egraph.certificates.graph_record import graph_record
from meganeura_dsl.transforms.egraph.certificates.guide import guide_of, rules_text
from meganeura_dsl.transforms.egraph.certificates.relevance import relevant
from meganeura_dsl.transforms.egraph.certificates.run_certificate import (
    NoChainError,
    certificate,
    certificate_text,
)
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot
from meganeura_dsl.transforms.egraph.encoding.schema import constructors
from meganeura_dsl.transforms.egraph.extract.extract import Extraction, extract_graph
from meganeura_dsl.transforms.egraph.optimized import Optimized
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from tests.effort import effort
from tests.standard import declared
from tests.verify.rules import FILE

Json = Any
PACKAGE = FILE.parent
MODELS = effort(
    ["digits_mlp", "digits_cnn", "resnet:resnet18"],
    [f"{file}:{name}" for file in standard_model_names() for name in declared(file, "model")],
)
STEPS = effort(
    ["digits_mlp", "recurrent", "maml"],
    [f"{file}:{name}" for file in standard_model_names() for name in declared(file, "train")],
)
SIZES = {"whisper:whisper_sentences": {"s": 4}}
"""Sizes of models that the smallest ones do not fit."""
MUTANTS = effort(300, 10_000)


@cache
def optimized(name: str, mode: str) -> tuple[Optimized, ...]:
    program = pipeline.load(name)
    if mode == "train":
        return compiled_step(program, []).optimizations
    symbolic = pipeline.elaborate_model(program)
    sizes = example_sizes(symbolic.inputs.values()) | SIZES.get(name, {})
    graph = pipeline.elaborate_model(program, sizes=sizes).graph
    return compiled_model(graph, RewriteOptions()).optimizations


@cache
def certified(name: str, mode: str) -> str:
    return certificate_text(certificate(optimized(name, mode), pipeline.load(name).texts))


@pytest.mark.parametrize(
    ("name", "mode"), [*((n, "infer") for n in MODELS), *((n, "train") for n in STEPS)]
)
def test_what_the_optimizer_does_to_a_model_is_certified(name: str, mode: str) -> None:
    runs = check_runs(json.loads(certified(name, mode)))
    sizes = [(len(run["before"]["nodes"]), len(run["after"]["nodes"])) for run in runs]
    for done in optimized(name, mode):
        before = len(done.evidence.before.values)
        after = len(done.graph.values)
        assert any(first == before and second >= after for first, second in sizes)
    changed = [run for run in runs if run["before"] != run["after"]]
    assert all(run["steps"] or run["bodies"] for run in changed)


def test_a_loop_is_certified_with_its_body() -> None:
    whole = json.loads(certified("recurrent", "train"))
    bodies = [(run, each) for run in whole["runs"] for each in run["bodies"]]
    assert bodies
    for run, each in bodies:
        assert each["run"] < whole["runs"].index(run)
        each["after"] = "0" * 64
    with pytest.raises(CertificateError, match="no earlier run is about this body"):
        check_runs(whole)


def test_the_chain_is_found_in_the_places_that_the_second_graph_is_due_to() -> None:
    """And a rule that may be of use in some classes is looked for in these alone."""
    done = optimized("digits_mlp", "train")[1]
    before, after = graph_record(done.evidence.before), graph_record(done.graph)
    guide = guide_of(done.evidence.explored, before, done.evidence.saturated, "train")
    narrow = relevant(guide, read_nodes(after))
    assert len(narrow.rules) < len(guide.rules) / 2
    assert len(narrow.starts) == len(narrow.rules)
    chain = ChainSearch(before, after, {}, narrow).run()
    assert chain is not None
    assert {step.rule.name for step in chain.steps} <= {rule.name for rule in narrow.rules}


def test_the_rules_of_the_checker_are_those_of_the_optimizer() -> None:
    assert FILE.read_text(encoding="utf-8") == rules_text(), "python -m tests.verify.rules"


def test_a_certificate_of_other_rules_is_refused() -> None:
    spoilt = {**json.loads(certified("digits_mlp", "infer")), "rules": "0" * 64}
    with pytest.raises(CertificateError, match="made with other rules"):
        check_runs(spoilt)


def outputs(graph: Json) -> dict[str, np.ndarray]:
    """The outputs of a graph for leaves that are random by their text, in double precision."""
    found: list[np.ndarray] = []
    for op, operands, attributes, dtype, shape in graph["nodes"]:
        if op == "Leaf":
            random = np.random.default_rng(sum(attributes[0].encode()))
            values = random.uniform(0.1, 1, shape)
            found.append(values if dtype == "f32" else random.integers(0, 2, shape))
            continue
        constructor = constructors()[op]
        names = [name for name, _ in constructor.fields]
        given = [tuple(each) if isinstance(each, list) else each for each in attributes]
        made = constructor.make(dict(zip(names, given, strict=False)))
        results = made.evaluate_all(*(found[operand] for operand in operands))
        index = int(attributes[-1]) if made.multiple_results else 0
        found.append(np.asarray(results[index]))
    return {name: found[number] for name, number in graph["outputs"].items()}


def spoil(run: Json, random: Random) -> None:
    """Change a step, or the second graph."""
    match random.randint(0, 4):
        case 0:
            del run["steps"][random.randrange(len(run["steps"]))]
        case 1:
            step = random.choice(run["steps"])
            step["rule"] = random.choice(sorted(read_rules()[0]))
        case 2:
            step = random.choice(run["steps"])
            name = random.choice([*sorted(step["bound"]), "0.0", "1.0", "false"])
            value = step["bound"].get(name)
            if isinstance(value, dict) and "node" in value:
                value["node"] = random.randrange(len(run["before"]["nodes"]))
            else:
                step["bound"][name] = random.choice([0, 1, -1, 1.0, True, "f32", [], [0], [1, 0]])
        case 3:
            node = random.choice(run["after"]["nodes"])
            if node[1]:
                node[1][random.randrange(len(node[1]))] = random.randrange(
                    len(run["after"]["nodes"])
                )
            elif node[2] and isinstance(node[2][0], float):
                node[2][0] += random.choice([1.0, -0.5])
        case _:
            node = random.choice(run["after"]["nodes"])
            if node[2]:
                node[2][random.randrange(len(node[2]))] = random.choice(
                    [0, 1, 0.5, True, [0], "relu"]
                )


def is_true(run: Json) -> bool:
    """True if both graphs of a run have the same outputs, up to rounding."""
    first, second = outputs(run["before"]), outputs(run["after"])
    return all(np.allclose(first[name], second[name], 1e-6, 1e-6) for name in first)


def test_a_spoilt_certificate_is_refused_or_true() -> None:
    """One in which a step is dropped that nothing needs is accepted, and still true."""
    whole = json.loads(certified("digits_mlp", "train"))
    assert all(map(is_true, whole["runs"]))
    accepted = 0
    for seed in range(MUTANTS):
        run = json.loads(json.dumps(Random(seed).choice(whole["runs"])))
        spoilt = {**whole, "runs": [run]}
        spoil(run, Random(seed + 1))
        try:
            check_runs(spoilt)
        except CertificateError:
            continue
        accepted += 1
        assert is_true(run), seed
    assert accepted < MUTANTS // 4


def of_twice_a_value(**bound: Json) -> Json:
    """A certificate that `2 x` is `x`, whose last step binds also what is given."""
    leaf, vector = ["Leaf", [], ["input x"], "f32", [2]], {"type": ["f32", [2]]}
    two = [["Constant", [], [2.0, "f32"], "f32", []], ["Broadcast", [1], [[2], []], "f32", [2]]]
    before = [leaf, *two, ["Mul", [0, 2], [], "f32", [2]]]
    x, constant, spread, product = ({"node": number} for number in range(4))
    scalar = {"e": constant, "v": 2.0, "d": "f32", "t": {"type": ["f32", []]}}
    steps = [
        ("number", scalar),
        ("number-spread", {"e": spread, "x": constant, "s": [2], "a": [], "t": vector, "v": 2.0}),
        ("product", {"e": product, "a": x, "b": spread, "t": vector}),
        ("mul-one", {"e": product, "x": x, "z": spread} | bound),
    ]
    run = {
        "mode": "infer",
        "before": {"nodes": before, "outputs": {"output y": 3}, "parameters": []},
        "bodies": [],
        "steps": [{"rule": rule, "bound": each} for rule, each in steps],
        "after": {"nodes": [leaf], "outputs": {"output y": 0}, "parameters": []},
    }
    return {"format": FORMAT, "rules": read_rules()[1], "runs": [run]}


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ({}, "does not hold"),
        ({"1.0": 2.0}, r"\['1.0'\] are no variables of the rule"),
        ({"x": [2.0]}, "are no integers"),
        ({"x": ["node", 0]}, "are no integers"),
        ({"x": {"type": ["f32", [2.0]]}}, "are no integers"),
    ],
)
def test_a_step_that_gives_a_rule_another_meaning_is_refused(bound: Json, reason: str) -> None:
    with pytest.raises(CertificateError, match=reason):
        check_runs(of_twice_a_value(**bound))


def test_an_output_that_is_another_value_is_refused() -> None:
    whole = json.loads(certified("digits_mlp", "train"))
    outputs = whole["runs"][0]["after"]["outputs"]
    name = next(iter(outputs))
    outputs[name] -= 1
    with pytest.raises(CertificateError, match="is not shown to be equal"):
        check_runs(whole)


@pytest.mark.parametrize("seed", range(effort(5, 200)))
def test_an_extraction_that_changes_a_value_is_not_certified(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class is computed by a node of another: no chain leads there, nor does the right one."""
    whole = json.loads(certified("digits_mlp", "train"))
    before = optimized("digits_mlp", "train")[0].evidence.before

    def faulty(
        found: EGraphSnapshot, roots: tuple[int, ...], device: DeviceModel, *, apart: bool
    ) -> Extraction:
        plan = extract_graph(found, roots, device, apart=apart)
        known = [number for number in plan.order if number < len(found.types)]
        pairs = [(a, b) for a, b in combinations(known, 2) if found.types[a] == found.types[b]]
        first, second = Random(seed).choice(pairs)
        return replace(plan, run={**plan.run, second: plan.run[first]})

    monkeypatch.setattr(optimize, "extract_graph", faulty)
    done = optimize.optimize(before, mode="forward")
    with pytest.raises(NoChainError):
        certificate([done], ())
    run = {**whole["runs"][0], "after": graph_record(done.graph)}
    with pytest.raises(CertificateError, match=r"no step leads to|is not shown to be equal"):
        check_runs({**whole, "runs": [run]})


def test_malformed_certificates_are_refused_in_words() -> None:
    text = certified("digits_mlp", "infer").encode()
    for seed in range(MUTANTS):
        data = json_mutant(Random(seed), [text])
        try:
            check_runs(json.loads(data))
        except (CertificateError, ValueError):
            continue


@pytest.mark.parametrize(
    ("table", "right", "wrong"),
    [
        ("corner", [2, (0, 0), (1, 1)], 10**15),
        ("swap", [(0, 2, 1), 3], 10**15),
        ("nested", [(1, 4), (0, 2, 3), (0, 1, 3, 4, 5)], (10**15,)),
    ],
)
def test_numbers_of_axes_are_compared(table: str, right: Sequence[Json], wrong: Json) -> None:
    """None of a step, however large, is counted up to."""
    replay = Replay({"nodes": [], "outputs": {}, "parameters": []})
    names = "abcd"[: len(right)]
    atom = "row", table, tuple(names)
    assert replay.holds(atom, dict(zip(names, right, strict=True)))
    for place in range(len(right)):
        changed = [*right[:place], wrong, *right[place + 1 :]]
        if type(changed[place]) is type(right[place]):
            assert not replay.holds(atom, dict(zip(names, changed, strict=True)))


def test_the_checker_imports_the_standard_library_alone() -> None:
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                assert top in sys.stdlib_module_names or top == "meganeura_verify", (path, name)


def test_the_command_says_what_is_right_and_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, none = (tmp_path / name for name in ("good.json", "bad.json", "none.json"))
    good.write_text(certified("digits_mlp", "train"))
    bad.write_text(good.read_text().replace('"rule":"relu"', '"rule":"gelu"'))
    assert main([str(good)]) == 0
    assert "forward: 48 values equal 28, by 12 steps" in capsys.readouterr().out
    assert main([str(bad), str(none)]) == 1
    errors = capsys.readouterr().err
    assert "bad.json: REFUSED: run 0: step" in errors
    assert f"none.json: REFUSED: `{none}` cannot be read: No such file or directory" in errors
    assert main([]) == 2


def test_the_checker_runs_without_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(certified("digits_mlp", "infer"))
    code = "import sys; sys.path.insert(0, sys.argv.pop(1))\n"
    code += "from meganeura_verify.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-I", "-S", "-c", code, str(PACKAGE.parent), "run.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout
