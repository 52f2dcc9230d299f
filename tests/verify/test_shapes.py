"""Certificates of shapes: written for every file of the library, right, and refused once spoilt.

A spoilt certificate that is accepted must still be true: a grid of sizes judges it.
"""

import json
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest
from meganeura_verify import CertificateError
from meganeura_verify.__main__ import main
from meganeura_verify.conditions import value_of
from meganeura_verify.shapes import check_shapes
from meganeura_verify.sizes import Poly, polynomial, read_size

from fuzz.json_mutants import json_mutant
from meganeura_dsl import pipeline
from meganeura_dsl.checker import Checker
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.program import standard_models
from meganeura_dsl.symbolic.assumptions import (
    And,
    Compare,
    Condition,
    Facts,
    Flag,
    Not,
    Or,
    Proved,
    Recorder,
)
from meganeura_dsl.symbolic.certificates.shape_certificate import shape_certificate
from meganeura_dsl.symbolic.size import dim
from tests.dsl.symbolic.questions import condition_of, question
from tests.dsl.symbolic.verdicts import FILE as QUICK
from tests.effort import effort
from tests.literate import SPEC, read
from tests.verify.shape_mutants import is_false, single, spoil

Json = Any
LIBRARY = sorted(path.name for path in Path(str(standard_models())).glob("*.mgn"))
FILES = effort(["digits_cnn.mgn", "swin.mgn"], LIBRARY)
QUESTIONS = effort(60, 500)
MUTANTS = effort(200, 10_000)
PAGES = sorted((SPEC / "errors").glob("E*.md"))
REFUSED = effort(
    [path for path in PAGES if path.stem in ("E0301", "E0302", "E0303", "E0304", "E0311")],
    [path for path in PAGES if path.stem != "E0330"],  # whose program takes all steps there are
)
TEXTS = [("", Source("questions.mgn", ""))]
h, w, s = dim("h"), dim("w"), dim("s")


@cache
def of_file(name: str) -> Json:
    recorder = Recorder()
    found = pipeline.check_file(str(Path(str(standard_models())) / name), recorder)
    assert found.fine
    return shape_certificate(recorder.answers, found.texts)


@cache
def of_questions() -> Json:
    """The certificate of random questions, and of those of two files."""
    recorder = Recorder()
    for line in QUICK.read_text().splitlines()[:QUESTIONS]:
        asked = question(int(line.partition(" ")[0]))
        facts = Facts(recorder=recorder)
        for name, bound in asked.least.items():
            facts = facts.with_lower_bound(name, bound)
        for clause in asked.facts:
            facts = facts.assume(condition_of(clause))
        facts.decide(condition_of(asked.claim))
    return shape_certificate(recorder.answers, TEXTS)


def asked(facts: Facts, *claims: Condition) -> Json:
    """The certificate of what is decided of some claims."""
    recorder = Recorder()
    known = Facts(recorder=recorder)
    for name, least in facts.least.items():
        known = known.with_lower_bound(name, least)
    for fact in facts.stated:
        known = known.assume(fact)
    for claim in claims:
        known.decide(claim)
    made = shape_certificate(recorder.answers, TEXTS)
    return check_shapes(json.loads(json.dumps(made)))


@pytest.mark.parametrize("name", FILES)
def test_all_that_is_answered_about_a_file_of_the_library_is_certified(name: str) -> None:
    made = of_file(name)
    assert made["uncertified"] == []
    check_shapes(json.loads(json.dumps(made)))
    assert made["questions"]


def test_counterexamples_of_refused_programs_are_certified() -> None:
    """The programs of the pages of errors: what is refuted, and what was proved before."""
    refuted = 0
    for path in REFUSED:
        page = read(path)
        for program in page.programs:
            recorder = Recorder()
            found = Checker(program.source, page.load, recorder=recorder).run()
            made = shape_certificate(recorder.answers, found.texts)
            assert made["uncertified"] == [], path.name
            check_shapes(json.loads(json.dumps(made)))
            refuted += sum("example" in each for each in made["questions"])
    assert refuted >= 10


def test_a_certificate_costs_less_than_a_check() -> None:
    """It is to cost less than two checks; it takes about half of one."""
    recorder, target = Recorder(), str(Path(str(standard_models())) / "swin.mgn")
    start = process_time()
    found = pipeline.check_file(target, recorder)
    checked = process_time()
    made = shape_certificate(recorder.answers, found.texts)
    written = process_time()
    check_shapes(made)
    assert written - checked < 2 * (checked - start)
    assert process_time() - written < 1


def test_random_questions_are_certified() -> None:
    """Few are not: a proof by more steps than a question may take, or by residues of floors."""
    made = of_questions()
    check_shapes(json.loads(json.dumps(made)))
    assert len(made["questions"]) > QUESTIONS // 2
    assert len(made["uncertified"]) <= QUESTIONS // 100


def test_each_answer_names_where_it_is_asked() -> None:
    places = {each["at"].rpartition("/")[2] for each in of_file("swin.mgn")["questions"]}
    files = {place.partition(".mgn:")[0] for place in places}
    assert files == {"swin", "nn"}
    assert all(place.partition(":")[2].isdigit() for place in places)


def test_a_spoilt_certificate_is_refused_or_true() -> None:
    wholes = [of_questions(), *map(of_file, FILES)]
    accepted = proofs = 0
    for seed in range(MUTANTS):
        random = Random(seed)
        whole = random.choice(wholes)
        number = random.randrange(len(whole["questions"]))
        spoilt = single(whole, number)
        spoil(spoilt, random)
        proofs += "proofs" in spoilt["questions"][0]
        try:
            check_shapes(spoilt)
        except CertificateError:
            continue
        if "proofs" in spoilt["questions"][0]:
            accepted += 1
            assert not is_false(spoilt), (seed, json.dumps(spoilt["questions"]))
    assert accepted < proofs // 2


def test_the_grid_bites() -> None:
    made = asked(Facts(), Compare("==", h // 2 + (h + 1) // 2, h))
    made = single(made, 0)
    assert not is_false(made)
    made["questions"][0]["claim"] = ["==", ["*", 2, ["//", "h", 2]], "h"]
    assert is_false(made)
    made["contexts"][0]["facts"] = [["==", ["//", "h", 2], ["//", ["+", "h", 1], 2]]]
    assert not is_false(made)


def test_malformed_certificates_are_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(of_file("digits_cnn.mgn")).encode()
    path = tmp_path / "proof.json"
    for seed in range(MUTANTS):
        path.write_bytes(json_mutant(Random(seed), [text]))
        code = main([str(path)])
        said = capsys.readouterr()
        assert ("REFUSED" in said.err) == bool(code)


def test_what_cannot_be_checked_is_told_as_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof, text = tmp_path / "proof.json", tmp_path / "a.mgn"
    proof.write_text(json.dumps(_certificate()))
    assert main([str(proof), "--text", str(text)]) == 1
    assert f"proof.json: REFUSED: `{text}` cannot be read: No such file" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 1
    assert f"REFUSED: `{tmp_path}` cannot be read: Is a directory" in capsys.readouterr().err
    proof.write_text(json.dumps({**_certificate(), "format": "meganeura-shapes-2"}))
    assert main([str(proof)]) == 1
    reason = "its format is meganeura-shapes-2, and meganeura-shapes-1 and meganeura-run-1 are"
    assert reason in capsys.readouterr().err


def test_what_a_stranger_writes_is_shown_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = _certificate()
    made["uncertified"] = [{"at": "\x1b[2J\ud800", "text": "h" * 10_000, "why": ""}]
    (tmp_path / "proof.json").write_text(json.dumps(made))
    assert main([str(tmp_path / "proof.json")]) == 0
    said = capsys.readouterr().out
    assert r"\x1b[2J\ud800: hhh" in said
    assert len(said) < 2_000


@pytest.mark.parametrize("grown", [lambda x: x, lambda x: ["*", 7, x]])
def test_a_certificate_that_grows_without_end_is_refused(grown: Callable[[Json], Json]) -> None:
    """Each value is twice as long as the one before: after 40 of them, larger than all memory."""
    values = [["==", f"x{n}", ["*", f"x{n + 1}", grown(f"x{n + 1}")]] for n in range(40)]
    made = _question([">=", "x0", 1], [{"tree": 1}], facts=[*values, [">=", "x0", 7]])
    check_shapes(made)
    steps = [{"rewrite": 40 + n, "values": [[f"x{n}", n]]} for n in range(40)]
    made["contexts"][0]["steps"] = steps
    with pytest.raises(CertificateError, match=r"is too large|too many"):
        check_shapes(made)
    many = ["+", *(f"x{n}" for n in range(150))]
    with pytest.raises(CertificateError, match="too many terms"):
        check_shapes(_question([">=", ["*", many, many], 0], [{"tree": 1}]))


def _certificate() -> Json:
    """A proof by a fact, by floors and by a bound: h//2 + h//2 == h, and so on."""
    facts = Facts().assume(Compare("==", h % 2, 0)).assume(Compare(">=", w, 2 * h))
    return asked(facts, Compare("==", 2 * (h // 2), h), Compare(">=", w // 2, h))


def _drop_fact(made: Json) -> None:
    made["contexts"][-1]["facts"] = []


def _swap_sizes(made: Json) -> None:
    made["questions"][1]["claim"][1:] = reversed(made["questions"][1]["claim"][1:])


def _change_coefficient(made: Json) -> None:
    made["contexts"][-1]["facts"][0] = [">=", "w", "h"]


def _drop_proof(made: Json) -> None:
    made["questions"][1]["proofs"] = []


def _prove_by_nothing(made: Json) -> None:
    made["questions"][1]["proofs"] = [{"tree": 1}]


def _other_context(made: Json) -> None:
    made["questions"][1]["in"] = 0


def _stronger_claim(made: Json) -> None:
    made["questions"][1]["claim"][0] = ">"


@pytest.mark.parametrize(
    "change",
    [_drop_fact, _swap_sizes, _change_coefficient, _drop_proof, _prove_by_nothing, _other_context,
     _stronger_claim],
)  # fmt: skip
def test_a_certificate_that_is_changed_is_refused(change: Callable[[Json], None]) -> None:
    made = _certificate()
    assert len(made["questions"]) == 2
    change(made)
    with pytest.raises(CertificateError):
        check_shapes(made)


def _question(claim: Json, proofs: Json, least: Json = None, facts: Json = ()) -> Json:
    contexts = [{"least": least or {}, "facts": list(facts), "steps": []}]
    questions = [{"in": 0, "claim": claim, "proofs": proofs}]
    return {"format": "meganeura-shapes-1", "contexts": contexts, "questions": questions}


def test_a_new_name_stands_for_no_size_of_the_program() -> None:
    """Inside of a proof, a step would let `y` be 5, and so prove that it is."""
    steps = [{"lemma": [">=", 5, 5], "proofs": []}, {"let": "y", "is": 5, "least": [0, 1]}]
    claim = ["or", ["==", "y", 5], ["==", "y", 6]]
    proof = {"other": 0, "steps": steps, "proofs": [{"at": 1}]}
    with pytest.raises(CertificateError):
        check_shapes(_question(claim, [proof]))
    claim[1][1] = claim[2][1] = "quotient y"
    with pytest.raises(CertificateError, match="a name of the program begins with"):
        check_shapes(_question(claim, [proof]))


def test_a_divisor_that_may_be_zero_proves_nothing() -> None:
    """That h is >= 1 follows of no floor that only the proof divides by h."""
    cut = ["cut", "h", 1, 1, ["low", 1, "h", ["divisor", 1]], ["divisor", 1], 1, 1]
    with pytest.raises(CertificateError, match="a divisor may be 0"):
        check_shapes(_question([">=", "h", 1], [{"tree": cut}], {"h": 0}))


@pytest.mark.parametrize("number", [1.0, True, "1", None, -1, 7])
def test_a_line_is_a_number(number: Json) -> None:
    with pytest.raises(CertificateError):
        check_shapes(_question([">=", "h", 2], [{"at": number}], facts=[[">=", "h", 2]]))
    check_shapes(_question([">=", "h", 2], [{"at": 0}], facts=[[">=", "h", 2]]))


def test_an_example_names_all_sizes_and_satisfies_all_facts() -> None:
    facts = Facts().assume(Compare("==", w % s, 0)).assume(Compare(">=", s, 3))
    made = asked(facts, Compare("==", h % 2, 0))
    (asked_for,) = made["questions"]
    assert asked_for["example"] == {"h": 1, "s": 3, "w": 3}
    for changed, reason in [
        ({"h": 2, "s": 3, "w": 3}, "the claim holds"),
        ({"h": 1, "s": 3, "w": 4}, "outside the facts"),
        ({"h": 1}, "leaves a size open"),
        ({"h": -1, "s": 3, "w": 3}, "below its bound"),
        ({"h": 1, "s": 3.0, "w": 3}, "no sizes"),
    ]:
        asked_for["example"] = changed
        with pytest.raises(CertificateError, match=reason):
            check_shapes(made)


def test_what_is_not_certified_is_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = _certificate()
    made["uncertified"] = [{"at": "a.mgn:3", "text": "h > w", "why": "no reason"}]
    proof = tmp_path / "proof.json"
    proof.write_text(json.dumps(made))
    assert main([str(proof)]) == 0
    said = capsys.readouterr().out
    assert "1 that the compiler answered are not certified" in said
    assert "a.mgn:3: h > w: not certified" in said


def test_contradictory_facts_have_a_proof() -> None:
    facts = Facts().assume(Compare("==", h, w)).assume(Compare("!=", w, h))
    made = asked(facts, Compare("==", s, 7), Or((Compare("<", s, 1), Compare(">", s, 9))))
    assert len(made["questions"]) == 2
    assert made["uncertified"] == []


def _size(random: Random, depth: int) -> Json:
    if depth == 0 or random.random() < 0.2:
        return random.choice(["h", "w", random.randint(-3, 6)])
    if random.random() < 0.5:
        divisor = random.choice([2, 3, 4, -2, _size(random, depth - 1)])
        return ["//", _size(random, depth - 1), divisor]
    return [random.choice("+*"), _size(random, depth - 1), _size(random, depth - 1)]


def _value(size: Poly, at: dict[str, int]) -> int:
    """The number that a polynomial is; each floor is computed from its parts."""
    total = 0
    for monomial, coefficient in size.items():
        factors = [coefficient]
        for kind, *parts in monomial:
            inside = [at[each] if kind == 0 else _value(polynomial(each), at) for each in parts]
            factors.append(inside[0] if kind == 0 else inside[0] // inside[1])
        total += prod(factors)
    return total


def test_the_normal_form_of_a_size_has_its_values() -> None:
    compared = 0
    for seed in range(effort(300, 30_000)):
        random = Random(seed)
        size = _size(random, 4)
        try:
            found = read_size(size)
        except CertificateError:
            continue
        for _ in range(8):
            at = {"h": random.randint(0, 40), "w": random.randint(0, 9)}
            try:
                number = value_of(size, at)
            except ZeroDivisionError:
                continue
            compared += 1
            assert _value(found, at) == number, (seed, size, at)
    assert compared > effort(1_000, 100_000)


def test_a_part_of_an_or_is_excluded_by_an_or_in_it() -> None:
    small = Or((Compare("<", w, 2), Compare("<", w, 3)))
    either = Or((And((small, Flag("deep"))), Compare("==", h, 2)))
    facts = Facts().assume(Compare(">=", w, 5)).assume(either)
    made = asked(facts, Compare("==", h, 2))
    assert made["uncertified"] == []
    assert made["questions"][0]["proofs"]


def test_an_or_in_an_or_is_certified() -> None:
    deep = Flag("deep")
    small = And((deep, And((Compare("<=", h, w), Compare("<", 0, w)))))
    large = And((deep, And((Compare(">", h, w), Compare("<", 0, h)))))
    made = asked(Facts(), Or((Or((large, small)), And((Not(deep), Compare("<", 0, 3 * h))))))
    assert made["uncertified"] == []
    assert made["questions"][0]["proofs"]


def test_nothing_is_recorded_unless_it_is_asked_for() -> None:
    facts = Facts().assume(Compare("==", h % 2, 0))
    assert facts.recorder is None
    assert facts.decide(Compare("==", 2 * (h // 2), h)) == Proved()
