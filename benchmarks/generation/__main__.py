"""Generation and recurrence beside PyTorch, transformers and JAX, on one machine.

    python -m benchmarks.generation [--tiny] [--profile] [--only NAME ...] [--seconds N]

smollm2_135m with random weights in single precision: the tokens behind a prompt of 512 have to be
those of transformers, 200 in a row; `decode` is the time of a token behind it at batch 1, `prefill`
that until the first token is known, all in milliseconds, medians of rounds. `prompt` is the same
without caches, a plain forward pass. And an LSTM of two layers. Each contender has a process of its
own, and whoever is missing is a dash with its reason.
`--profile` also lists kernels, by the adapter's clock.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

from benchmarks.generation import prompt
from benchmarks.generation.case import SMOLLM, TINY, Case
from benchmarks.generation.recurrent import LSTM, SMALL, Sequences, ours, torchs

Row = tuple[str, str]


def _ours(device: str) -> Callable[[Case, bool], Iterator[Row]]:
    def rows(case: Case, profiled: bool) -> Iterator[Row]:  # noqa: FBT001
        from benchmarks.generation import ours  # noqa: PLC0415  each contender has its process

        return ours.rows(case, device, profiled=profiled)

    return rows


def _transformers(*, compiled: bool) -> Callable[[Case, bool], Iterator[Row]]:
    def rows(case: Case, _: bool) -> Iterator[Row]:  # noqa: FBT001
        from benchmarks.generation import with_transformers  # noqa: PLC0415  may be missing

        return with_transformers.rows(case, compiled=compiled)

    return rows


def _jax(case: Case, _: bool) -> Iterator[Row]:  # noqa: FBT001
    from benchmarks.generation import with_jax  # noqa: PLC0415  may be missing

    return with_jax.rows(case)


CONTENDERS: Mapping[str, Callable[[Case, bool], Iterator[Row]]] = {
    "wgpu": _ours("wgpu"),
    "transformers": _transformers(compiled=False),
    "compiled": _transformers(compiled=True),
    "xla": _ours("xla"),
    "jax": _jax,
}
RECURRENT: Mapping[str, Callable[[Sequences, bool], Iterator[Row]]] = {
    "lstm-wgpu": lambda sizes, profiled: ours(sizes, "wgpu", profiled=profiled),
    "lstm-xla": lambda sizes, _: ours(sizes, "xla", profiled=False),
    "lstm-torch": lambda sizes, _: torchs(sizes),
}
PROMPT: Mapping[str, Callable[[Case], Iterator[Row]]] = {
    "prompt-wgpu": lambda case: prompt.ours(case, "wgpu"),
    "prompt-xla": lambda case: prompt.ours(case, "xla"),
    "prompt-torch": lambda case: prompt.torchs(case, compiled=False),
    "prompt-compiled": lambda case: prompt.torchs(case, compiled=True),
    "prompt-jax": prompt.jaxs,
}


def _measure(name: str, *, tiny: bool, profiled: bool) -> None:
    """Print what one contender gives, a line each."""
    if name in CONTENDERS:
        rows = CONTENDERS[name](TINY if tiny else SMOLLM, profiled)
    elif name in PROMPT:
        rows = PROMPT[name](TINY if tiny else SMOLLM)
    else:
        rows = RECURRENT[name](SMALL if tiny else LSTM, profiled)
    for row, text in rows:
        print(f"@{row}\t{text}", flush=True)


def _run(name: str, options: list[str], seconds: int) -> dict[str, str]:
    """Returns the results of a contender in its own process."""
    command = [sys.executable, "-m", "benchmarks.generation", "--measure", name, *options]
    try:
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=seconds)
        output, reason = done.stdout, "" if done.returncode == 0 else done.stderr[-400:]
    except subprocess.TimeoutExpired as error:
        output = error.stdout if isinstance(error.stdout, str) else (error.stdout or b"").decode()
        reason = f"not done after {seconds} s"
    found: dict[str, str] = {}
    for line in output.splitlines():
        if line.startswith("@"):
            row, _, text = line[1:].partition("\t")
            found[row] = text
            if row != "tokens":
                print(f"{name:14} {row:24} {text}", flush=True)
    if reason:
        print(f"{name:14} -  {' '.join(reason.split())}", flush=True)
    return found


def _agreement(tokens: Mapping[str, list[str]]) -> None:
    """Prints the number of each contender's tokens that are those of transformers."""
    wanted = tokens.get("transformers")
    for name, found in tokens.items():
        if wanted is None:
            print(f"{name:14} {len(found)} tokens, {len(set(found))} different")
            continue
        pairs = zip(found, wanted, strict=False)
        same = next((at for at, (a, b) in enumerate(pairs) if a != b), len(wanted))
        print(f"{name:14} {same} of {len(wanted)} tokens are those of transformers")


def main() -> None:
    """Measure all contenders, one after another, and print what they give."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    names = [*CONTENDERS, *RECURRENT, *PROMPT]
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=int, default=120, help="of one contender at most")
    parser.add_argument("--measure", choices=names, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        _measure(given.measure, tiny=given.tiny, profiled=given.profile)
        return
    options = [f"--{name}" for name in ("tiny", "profile") if getattr(given, name)]
    tokens: dict[str, list[str]] = {}
    for name in given.only:
        found = _run(name, options, given.seconds)
        if "tokens" in found:
            tokens[name] = found["tokens"].split()
    _agreement(tokens)


if __name__ == "__main__":
    main()
