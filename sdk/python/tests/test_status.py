"""The status file of a process that runs with the SDK."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest
from conftest import SOURCE, clean_environment, trust_text

import faultloom

BOOT = str(SOURCE / "boot")


def status_of(folder, code, **env):
    env = {"PYTHONPATH": BOOT, "FAULTLOOM_SERVICE": "front", "FAULTLOOM_STATUS": str(folder), **env}
    env.setdefault("FAULTLOOM_TRUST", trust_text().replace("\n", ";"))
    code = "import os; " + code + "; print(os.getpid())"
    ran = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, env=clean_environment(**env), timeout=60)
    assert ran.returncode == 0, ran.stderr
    files = os.listdir(folder) if os.path.isdir(folder) else []
    return ran, {name: json.loads((folder / name).read_text()) for name in files}


def test_it_contains_service_trust_and_hooked_libraries(tmp_path):
    ran, files = status_of(tmp_path, "import http.client, grpc, grpc.aio, flask, httpx, aiohttp.web", FAULTLOOM_SERVICE="fro/nt")
    pid = int(ran.stdout)
    (status,) = files.values()
    assert list(files) == [f"fro_nt.{pid}.json"]
    libraries = {library["name"]: library for library in status.pop("libraries")}
    assert status == {
        "service": "fro/nt", "pid": pid, "sdk": "python", "version": faultloom.__version__,
        "runtime": f"CPython {platform.python_version()}", "trust": "keys",
    }  # fmt: skip
    assert set(libraries) == {"http.client", "http.server", "grpcio", "grpc.aio", "Flask", "httpx", "aiohttp", "aiohttp.web"}
    assert all(library["state"] == "hooked" and library["reason"] == "" for library in libraries.values())
    import grpc

    assert libraries["grpcio"]["version"] == grpc.__version__ and libraries["http.client"]["version"] == platform.python_version()


@pytest.mark.parametrize(
    ("env", "trust"),
    [
        ({"FAULTLOOM_TRUST": ""}, "no trust settings"),
        ({"FAULTLOOM_TRUST": "environment e;nonsense"}, "line 2 of the trust settings"),
        ({"FAULTLOOM_TRUST_FILE": "/nonexistent/trust"}, "cannot read the trust file"),
    ],
)
def test_it_contains_the_reason_for_missing_trust_settings(tmp_path, env, trust):
    _, files = status_of(tmp_path, "import http.client", **env)
    (status,) = files.values()
    assert status["trust"].startswith(trust)


def test_a_refused_library_is_named_with_its_reason(tmp_path):
    libraries = tmp_path / "lib"
    libraries.mkdir()
    (libraries / "httpx.py").write_text("__version__ = '0.10.0'\n")
    folder = tmp_path / "status"
    folder.mkdir()
    _, files = status_of(folder, "import httpx", PYTHONPATH=f"{BOOT}:{libraries}")
    (status,) = files.values()
    (library,) = [library for library in status["libraries"] if library["name"] == "httpx"]
    assert library["state"] == "refused" and library["version"] == "0.10.0" and "httpx 0.10.0 is not supported" in library["reason"]


def test_a_folder_that_cannot_be_written_is_ignored(tmp_path):
    ran, files = status_of(tmp_path / "missing", "import http.client")
    assert files == {} and ran.stderr == ""
