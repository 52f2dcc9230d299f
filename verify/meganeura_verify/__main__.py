"""`meganeura-verify FILE...`: check certificates, and say what each shows."""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meganeura_verify import CertificateError, require
from meganeura_verify.runs import FORMAT as RUNS
from meganeura_verify.runs import check_runs
from meganeura_verify.shapes import FORMAT as SHAPES
from meganeura_verify.shapes import check_shapes

Json = Any
LARGEST = 1 << 30
"""Bytes of a certificate that is read."""
LONGEST = 400
"""Characters of a text of a certificate that are shown."""
CLAIMED = "a digest is a claim: that this is of these texts, only a certificate made anew shows"
USAGE = """usage: meganeura-verify FILE... [--text PROGRAM.mgn]...
checks certificates that `meganeura check`, `explain-opt`, `train` and `build` wrote to
`--certificate FILE`

--text PROGRAM.mgn  refuse certificates that are about other texts than this one: it is the
                    program, or a file that it imports, or one of the standard library"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files that are named; 1 if one does not show what it claims."""
    names, texts = _split(sys.argv[1:] if arguments is None else arguments)
    if not names or any(each.startswith("-") for each in (*names, *texts)):
        print(USAGE)
        return 0 if names and names[0] in ("-h", "--help") else 2
    failed = False
    for name in names:
        try:
            print(f"{name}: {_checked(name, texts)}")
        except (CertificateError, OSError) as error:
            failed = True
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"`{error.filename}` cannot be read: {error.strerror}"
            print(f"{name}: REFUSED: {printable(reason)}", file=sys.stderr)
    return int(failed)


def printable(text: str) -> str:
    """A text of a certificate as it may be shown: short, without control characters."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in shown)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The certificates, and the texts that they should be about."""
    names: list[str] = []
    texts: list[str] = []
    rest = iter(arguments)
    for each in rest:
        if each == "--text":
            texts.append(next(rest, "--text"))
        else:
            names.append(each)
    return names, texts


def _checked(name: str, texts: Sequence[str]) -> str:
    with Path(name).open("rb") as file:
        content = file.read(LARGEST + 1)
    require(len(content) <= LARGEST, "it has more than a gibibyte")
    try:
        certificate = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"it is no JSON: {error}") from None
    require(isinstance(certificate, dict), "this is no certificate")
    form = certificate.get("format")
    require(form in (SHAPES, RUNS), f"its format is {form}, and {SHAPES} and {RUNS} are checked")
    try:
        lines = (_shapes if form == SHAPES else _runs)(certificate, texts)
    except (LookupError, TypeError, ValueError) as error:
        raise CertificateError(f"malformed: {error!r}") from None
    return "\n  ".join(["right", *map(printable, lines)])


def _runs(certificate: Json, texts: Sequence[str]) -> list[str]:
    return [
        *_origin(certificate),
        *(
            f"{run['mode']}: {len(run['before']['nodes'])} values equal "
            f"{len(run['after']['nodes'])}, by {len(run['steps'])} steps"
            for run in check_runs(certificate)
        ),
        *_known(certificate, texts),
    ]


def _shapes(certificate: Json, texts: Sequence[str]) -> list[str]:
    check_shapes(certificate)
    questions = certificate["questions"]
    refuted = sum("example" in each for each in questions)
    left = certificate["uncertified"]
    return [
        *_origin(certificate),
        f"{len(questions) - refuted} conditions follow for all sizes",
        f"{refuted} are refuted by sizes",
        f"{len(left)} that the compiler answered are not certified",
        *(f"{each['at']}: {each['text']}: not certified" for each in left),
        *_known(certificate, texts),
    ]


def _origin(certificate: Json) -> list[str]:
    """The program and the compiler that a certificate names."""
    (program, digest), *_ = certificate["texts"]
    return [f"{program}, SHA-256 {digest}, by the compiler {certificate['compiler']}"]


def _known(certificate: Json, texts: Sequence[str]) -> list[str]:
    """The names that a certificate has for some texts, all of which it has to be about."""
    (program, digest), *others = certificate["texts"]
    names = {digest: program, **{each: name for name, each in others}}
    known: list[str] = []
    for text in texts:
        content = Path(text).read_bytes().removeprefix(b"\xef\xbb\xbf")
        found = hashlib.sha256(content).hexdigest()
        require(found in names, f"it is about other texts than `{text}`")
        known.append(f"`{text}` has the digest of {names[found]} in the certificate")
    return [*known, CLAIMED] if known else known


if __name__ == "__main__":
    sys.exit(main())
