"""`python -m tests.proofs [RULE ...]`: prove rules; all of them write the table anew.

`python -m tests.proofs gradients` writes the table of pullbacks, which the tests prove.
"""

import sys
import time

from tests.proofs import gradient_table
from tests.proofs.extents import every_rule, whole_extent
from tests.proofs.pullback_cases import cases
from tests.proofs.rules import NotProvedError, prove_rule
from tests.proofs.table import FILE, row, with_rows


def main(names: list[str]) -> int:
    """Returns 1 where a rule is not proved."""
    if names == ["gradients"]:
        text = gradient_table.FILE.read_text("utf-8")
        rows = gradient_table.rows(cases())
        gradient_table.FILE.write_text(gradient_table.with_rows(text, rows), encoding="utf-8")
        return 0
    rules, rows = every_rule(), []
    unknown = [name for name in names if name not in rules]
    if unknown:
        print(f"there is no rule {', '.join(unknown)}; docs/proved_rules.md lists them")
        return 2
    for name in names or rules:
        of, rule = rules[name]
        start = time.perf_counter()
        try:
            claims = prove_rule(rule, whole_extent(name))
        except NotProvedError as error:
            print(f"`{name}` is not proved: {error}")
            return 1
        rows.append(row(name, of, rule, claims))
        print(f"{name}: {len(claims)} instances, {time.perf_counter() - start:.1f} s", flush=True)
    if not names:
        FILE.write_text(with_rows(FILE.read_text("utf-8"), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
