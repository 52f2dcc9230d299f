"""A backend: the NumPy reference under another name."""

from meganeura_runtime.backends.reference.backend import ReferenceBackend


class TwinBackend(ReferenceBackend):
    """Does what the device `cpu` does."""

    name = "twin"
    title = "twin"
    forms = ("twin",)
    pattern = "twin"


BACKEND = TwinBackend()
