"""`meganeura-verify FILE...`: check certificates, and say what each shows."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from meganeura_verify import CertificateError, require
from meganeura_verify.runs import check_runs

LARGEST = 1 << 30
"""Bytes of a certificate that is read."""
USAGE = """usage: meganeura-verify FILE...
checks certificates that `meganeura explain-opt --certificate FILE` wrote"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files that are named; 1 if one does not show what it claims."""
    names = list(sys.argv[1:] if arguments is None else arguments)
    if not names or names[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if names else 2
    failed = False
    for name in names:
        try:
            print(f"{name}: {_checked(name)}")
        except (CertificateError, OSError) as error:
            failed = True
            print(f"{name}: REFUSED: {error}", file=sys.stderr)
    return int(failed)


def _checked(name: str) -> str:
    with Path(name).open("rb") as file:
        content = file.read(LARGEST + 1)
    require(len(content) <= LARGEST, "it has more than a gibibyte")
    try:
        certificate = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"it is no JSON: {error}") from None
    runs = check_runs(certificate)
    lines = [
        f"{run['mode']}: {len(run['before']['nodes'])} values equal {len(run['after']['nodes'])},"
        f" by {len(run['steps'])} steps"
        for run in runs
    ]
    return "right\n  " + "\n  ".join(lines)


if __name__ == "__main__":
    sys.exit(main())
