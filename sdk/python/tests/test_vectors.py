"""The shared vectors, through the conformance program as ``make conform`` runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SOURCE, clean_environment

VECTORS = Path(__file__).resolve().parents[3] / "spec" / "vectors"


def test_every_vector_gives_the_expected_result():
    if not VECTORS.is_dir():
        pytest.skip("spec/vectors is not there")
    ran = subprocess.run(
        [sys.executable, "-m", "faultloom.conform", str(VECTORS)],
        capture_output=True, text=True, check=True, env=clean_environment(PYTHONPATH=str(SOURCE.parent)),
    )  # fmt: skip
    got = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    files = sorted(VECTORS.glob("*/*.json"))
    assert len(got) == len(files) > 50
    for file in files:
        wanted = json.loads(file.read_text())["expect"]
        assert json.loads(got[f"{file.parent.name}/{file.stem}"]) == wanted, file


def test_requirements_file_is_the_test_extra() -> None:
    here = Path(__file__).resolve().parents[1]
    listed = [line for line in (here / "requirements-test.txt").read_text().splitlines() if line and not line.startswith("#")]
    extra = (here / "pyproject.toml").read_text().split("test = [", 1)[1].split("\n]", 1)[0]
    assert listed == [line.strip().strip('",') for line in extra.splitlines() if line.strip()]
