"""Small cases of one kind in one test: as many assertions as tests of their own, less to collect.

A test of one case costs pytest about as long as a small case takes. A case that takes a second,
that needs a fixture for itself or that one wants to run alone stays a parameter.
"""

import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature

import pytest

SHOWN_WHOLE = 3
"""Number of failures that are shown with their traceback; the others have a line each."""

Test = Callable[..., None]


def each_of(
    names: str | tuple[str, ...],
    cases: Iterable[object],
    ids: Callable[..., str] | Iterable[str] = str,
) -> Callable[[Test], Test]:
    """Runs a test for each case, and fails once with the names of all cases that fail.

    It takes what `pytest.mark.parametrize` takes. Fixtures are made once for all cases. A case may
    not skip: a skip counts as a failure.
    """
    given = tuple(cases)
    several = not isinstance(names, str)
    keys = names if isinstance(names, tuple) else (names,)
    rows = [case if several and isinstance(case, tuple) else (case,) for case in given]
    of_each = ["-".join(map(ids, row)) for row in rows] if callable(ids) else list(ids)
    if not given or len(of_each) != len(given):
        raise ValueError(f"{len(given)} cases with {len(of_each)} names")

    def fold(test: Test) -> Test:
        @wraps(test)
        def folded(**fixtures: object) -> None:
            failed: list[tuple[str, BaseException]] = []
            for name, row in zip(of_each, rows, strict=True):
                try:
                    test(**fixtures, **dict(zip(keys, row, strict=True)))
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
                    failed.append((name, error))
            if failed:
                pytest.fail(_report(failed, len(given)), pytrace=False)

        whole = signature(test)
        left = [each for key, each in whole.parameters.items() if key not in keys]
        folded.__dict__["__signature__"] = whole.replace(parameters=left)
        return folded

    return fold


def _report(failed: list[tuple[str, BaseException]], cases: int) -> str:
    whole = ["".join(traceback.format_exception(error)) for _, error in failed[:SHOWN_WHOLE]]
    lines = [f"{name}: {type(error).__name__}: {_first(error)}" for name, error in failed]
    return "\n".join((*whole, f"{len(failed)} of {cases} cases fail:", *lines))


def _first(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")
