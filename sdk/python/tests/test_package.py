"""The package as a wheel, installed into an environment of its own and started by its launcher."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import requests
from conftest import SIGNER, Peer, clean_environment, ends

import faultloom

FOLDER = Path(__file__).resolve().parents[1]


def run(*arguments, **kwargs):
    ran = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, env=clean_environment(), timeout=180, **kwargs)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools", reason="setuptools is not installed: the wheel is not built")
    source = tmp_path_factory.mktemp("source") / "python"
    # a copy, so that the build leaves no files in the source folder
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", ".*_cache"))
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", out, source)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    return folder / "bin"


def test_the_wheel_is_pure_python_and_complete(wheel):
    assert wheel.name == f"faultloom-{faultloom.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    package = FOLDER / "src" / "faultloom"
    wanted = {f"faultloom/{file.relative_to(package).as_posix()}" for file in package.rglob("*.py")} | {"faultloom/py.typed"}
    assert wanted <= names and not any(name.startswith("tests") for name in names)


def test_the_installed_launcher_runs_a_traced_application(environment):
    where = run(environment / "python", "-c", "import faultloom; print(faultloom.__file__)").strip()
    assert Path(where).is_relative_to(environment.parent)
    # the application's libraries come from the test environment, the SDK is the installed one
    (site,) = (environment.parent / "lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    boot = run(environment / "faultloom-python", "--path").strip()
    assert boot == str(Path(where).parent / "boot")
    app = Peer("flask_app", service="packaged", launcher=str(environment / "faultloom-python"))
    try:
        with faultloom.starting(SIGNER) as started:
            assert requests.get(app.url + "/cart/7/x", timeout=10).ok
    finally:
        app.stop()
    assert ends(started.history.segment) == [("replied", 200, False, "packaged")]


def test_it_runs_without_writable_folders(environment, tmp_path):
    """No home, no temporary folder, a working folder without write permission; the package folder stays as it was."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o500)
    code = "import http.client, faultloom, os, sys; print(http.client.HTTPConnection.send.__code__.co_filename.endswith('hooks/http/client.py'))"
    env = clean_environment(FAULTLOOM_TRUST="environment e;key fault f " + "0" * 64, HOME="/nonexistent", TMPDIR="/nonexistent")
    env.pop("PYTHONDONTWRITEBYTECODE")
    before = {path: path.stat().st_mtime_ns for path in environment.parent.rglob("*")}
    ran = subprocess.run(
        [str(environment / "faultloom-python"), "-B", "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path / "home", timeout=60
    )
    assert ran.stdout.strip() == "True" and ran.stderr == ""
    after = {path: path.stat().st_mtime_ns for path in environment.parent.rglob("*")}
    assert before == after and os.listdir(tmp_path / "home") == []
