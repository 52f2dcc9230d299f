"""`python -m tests.verify.rules`: write the rules that the checker of certificates reads."""

from pathlib import Path

from meganeura_dsl.transforms.egraph.certificates.guide import rules_text

FILE = Path(__file__).resolve().parents[2] / "verify/meganeura_verify/rules.json"

if __name__ == "__main__":
    FILE.write_text(rules_text(), encoding="utf-8")
