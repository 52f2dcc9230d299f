"""`meganeura check --certificate`: what is proved and refuted of sizes, for others to check."""

import json
from pathlib import Path

import pytest
from meganeura_verify.__main__ import main

from tests.cli.command import Command

PROGRAM = """\
block Halves()(x: [n, d]) -> [n, 2 * (d // 2)]{}:
    return x
"""


def test_a_check_writes_a_certificate(
    meganeura: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, proof = tmp_path / "halves.mgn", tmp_path / "proof.json"
    program.write_text(PROGRAM.format(" where d % 2 == 0"))
    done = meganeura("check", str(program), "--certificate", str(proof))
    assert done.code == 0
    assert "0 not certified; check it by meganeura-verify" in done.out
    assert main([str(proof), "--text", str(program)]) == 0
    said = capsys.readouterr().out
    assert "0 that the compiler answered are not certified" in said
    assert "halves.mgn, SHA-256" in said
    program.write_text(program.read_text() + "\n")
    assert main([str(proof), "--text", str(program)]) == 1
    assert "it is about other texts than" in capsys.readouterr().err


def test_a_refused_program_has_a_certificate_too(
    meganeura: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, proof = tmp_path / "halves.mgn", tmp_path / "proof.json"
    program.write_text(PROGRAM.format(""))
    done = meganeura("check", str(program), "--certificate", str(proof), "--json")
    assert done.code == 1
    json.loads(done.out)
    assert "2 refuted, 0 not certified" in done.err
    assert main([str(proof)]) == 0
    assert "2 are refuted by sizes" in capsys.readouterr().out
    made = json.loads(proof.read_text())
    refuted = [each for each in made["questions"] if "example" in each]
    assert [each["example"] for each in refuted] == [{"d": 1}, {"d": 1}]
    assert {Path(each["at"]).name for each in refuted} == {"halves.mgn:1"}


def test_one_program_has_a_certificate(meganeura: Command, tmp_path: Path) -> None:
    program = tmp_path / "halves.mgn"
    program.write_text(PROGRAM.format(" where d % 2 == 0"))
    other = tmp_path / "thirds.mgn"
    other.write_text(program.read_text())
    twice = meganeura("check", str(program), str(other), "--certificate", "proof.json")
    assert twice.code == 2
    over = meganeura("check", str(program), "--certificate", str(program.with_suffix(".txt")))
    assert over.code == 2
    notes = tmp_path / "notes.json"
    notes.write_text("{}")
    assert meganeura("check", str(program), "--certificate", str(notes)).code == 1
    assert notes.read_text() == "{}"


def test_a_certificate_of_another_kind_stays(meganeura: Command, tmp_path: Path) -> None:
    program, run = tmp_path / "halves.mgn", tmp_path / "run.json"
    program.write_text(PROGRAM.format(" where d % 2 == 0"))
    run.write_text('{"format":"meganeura-run-1"}')
    done = meganeura("check", str(program), "--certificate", str(run))
    assert done.code == 1
    assert "it is not a certificate of shapes" in done.err
    assert run.read_text() == '{"format":"meganeura-run-1"}'
    assert meganeura("check", str(program), "--certificate", str(run), "--force").code == 0


def test_a_program_that_is_not_read_has_no_certificate(meganeura: Command, tmp_path: Path) -> None:
    program, proof = tmp_path / "halves.mgn", tmp_path / "proof.json"
    program.write_text("block Halves(\n")
    done = meganeura("check", str(program), "--certificate", str(proof))
    assert done.code == 1
    assert f"{proof} is not written: nothing was proved or refuted of" in done.err
    assert not proof.exists()
