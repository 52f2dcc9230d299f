# What we use of threadpoolctl, which has no types of its own.
from contextlib import AbstractContextManager

class ThreadpoolController:
    def limit(self, *, limits: int | None = None) -> AbstractContextManager[object]: ...
