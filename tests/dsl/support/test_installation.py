"""The command that adds an extra, by what the metadata say of where the package came from."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from meganeura_dsl.support import installation
from tests.index_package import ORIGIN


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'meganeura[audio]'"),
        ("", "pip install 'meganeura[audio]'"),
        ("[1]", "pip install 'meganeura[audio]'"),
        ("{", "pip install 'meganeura[audio]'"),
        ('{"url": "file:///not/there"}', "pip install 'meganeura[audio]'"),
        ('{"url": "FOLDER", "dir_info": {"editable": true}}', "pip install -e 'PATH[audio]'"),
        ('{"url": "FOLDER", "dir_info": {}}', "pip install 'PATH[audio]'"),
        ('{"url": "FOLDER", "dir_info": 3}', "pip install 'PATH[audio]'"),
        (
            '{"url": "https://example.org/m", "vcs_info": {"vcs": "git", "commit_id": "1"}}',
            "pip install 'meganeura[audio] @ git+https://example.org/m'",
        ),
        (
            '{"url": "https://example.org/m.whl"}',
            "pip install 'meganeura[audio] @ https://example.org/m.whl'",
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_did(
    origin: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    text = origin and origin.replace('"FOLDER"', json.dumps(folder.as_uri()))
    found = SimpleNamespace(read_text=lambda _: text)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
    monkeypatch.setattr(installation, "_origin", ORIGIN)
    assert installation.install_command("audio") == command.replace("PATH", str(folder))
