"""The problem with which a call is refused."""

from collections.abc import Callable

import pytest

from meganeura_dsl.diagnostics.problem import Problem, ProblemError


def refused(call: Callable[[], object]) -> Problem:
    with pytest.raises(ProblemError) as caught:
        call()
    caught.value.problem.report()
    return caught.value.problem
