"""Tests that run the same program in their own folders optimize its graphs once."""

from pathlib import Path

import pytest

from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from tests.runtime.runs import Workspace
from tests.shared_entries import VARIABLE, shared_graphs


def test_a_run_in_another_folder_optimizes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimized: list[int] = []
    optimize = RewriteOptions.optimize

    def counted(self: RewriteOptions, *arguments: object, **options: object) -> object:
        optimized[-1] += 1
        return optimize(self, *arguments, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(RewriteOptions, "optimize", counted)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with shared_graphs():
        for name in ("one", "two"):
            optimized.append(0)
            (tmp_path / name).mkdir()
            Workspace(tmp_path / name).start("run", "epochs=1")
    first, second = optimized
    assert first > 0
    assert second == 0
