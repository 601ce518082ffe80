"""The environment of published code is made with the pip of the worker, whatever lies in the current folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import PublishedCodeError
from longshore.runs.published.environment import python_for


def test_nothing_in_the_current_folder_runs_as_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("pip", "json", "venv"):
        Path(f"{name}.py").write_text("open('it-ran', 'w')")
    with pytest.raises(PublishedCodeError, match="could not be installed"):
        python_for(("not-there==1.0",), lambda _: None)
    assert not Path("it-ran").exists()
