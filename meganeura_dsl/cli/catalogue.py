"""Every problem there is, of the front end and of the runtime, for `meganeura explain`."""

from meganeura_dsl.diagnostics import Problem
from meganeura_dsl.explain import PROBLEMS
from meganeura_runtime import index_problems, weights
from meganeura_runtime.artefact import problems as artefact_problems
from meganeura_runtime.data import problems as data_problems
from meganeura_runtime.deploy import problems as deploy_problems
from meganeura_runtime.inference import problems as input_problems
from meganeura_runtime.measure import problems as measure_problems
from meganeura_runtime.preprocess import problems as preprocess_problems
from meganeura_runtime.tensors import problems as file_problems
from meganeura_runtime.train import problems as train_problems


def problems() -> tuple[type[Problem], ...]:
    """All kinds of problems, by their classes."""
    return (
        *PROBLEMS,
        *data_problems.PROBLEMS,
        *file_problems.PROBLEMS,
        *index_problems.PROBLEMS,
        *weights.PROBLEMS,
        *input_problems.PROBLEMS,
        *preprocess_problems.PROBLEMS,
        *train_problems.PROBLEMS,
        *deploy_problems.PROBLEMS,
        *artefact_problems.PROBLEMS,
        *measure_problems.PROBLEMS,
    )
