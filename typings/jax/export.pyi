from collections.abc import Callable

from jax import stages

class Exported:
    def mlir_module(self) -> str: ...

def export(fun: stages.Wrapped) -> Callable[..., Exported]: ...
