"""The test process is an SDK client; peers run in processes of their own, with the SDK or without it ("stock")."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

# peers are started while gRPC's threads run here; its fork handlers must not run in them
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import faultloom.auto  # noqa: E402, F401
import pytest
import requests
from hypothesis import HealthCheck, settings

import faultloom
from faultloom.wire.history import CALL_FAILED, RECV_RESPONSE, SEND_REQUEST

# the machine may be busy: a slow example is not a failure
settings.register_profile("faultloom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("faultloom")

SOURCE = Path(faultloom.__file__).resolve().parent
APPS = Path(__file__).resolve().parent / "apps"
ENVIRONMENT = "shop-test"
FAULT_KEY = faultloom.Key("f1", True, bytes(range(32)))
TRACE_KEY = faultloom.Key("t1", False, bytes(range(1, 33)))
SIGNER = faultloom.Signer(FAULT_KEY, ENVIRONMENT)


def trust_text(*keys: faultloom.Key, faults: str = "on") -> str:
    lines = [f"key {'fault' if key.fault else 'trace'} {key.id} {key.secret.hex()}" for key in keys or (TRACE_KEY, FAULT_KEY)]
    return "\n".join([f"environment {ENVIRONMENT}", *lines, f"faults {faults}"]) + "\n"


def clean_environment(**more: str) -> Dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FAULTLOOM_", "GRPC_")) and k != "PYTHONPATH"}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


class Peer:
    """A service in a process of its own. ``address`` is host:port."""

    def __init__(self, app: str, *arguments: str, sdk: bool = True, service: str = "", trust: Optional[str] = None, launcher: str = "", **env: str) -> None:
        if sdk:
            if not launcher:
                env.setdefault("PYTHONPATH", str(SOURCE / "boot"))
            env.setdefault("FAULTLOOM_SERVICE", service or app.split("_")[0])
            env.setdefault("FAULTLOOM_TRUST", (trust_text() if trust is None else trust).replace("\n", ";"))
            if not env["FAULTLOOM_TRUST"]:
                del env["FAULTLOOM_TRUST"]
        # a file, not a pipe: it is not read while the peer runs, and a full pipe would block the peer
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [launcher or sys.executable, str(APPS / f"{app}.py"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=clean_environment(**env),
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise AssertionError(f"{app} did not start: {self.stop()}")
        self.address = f"127.0.0.1:{line.split()[1]}"
        self.url = f"http://{self.address}"

    def stop(self) -> str:
        """Stops the peer. Returns its standard error."""
        self.process.kill()
        self.process.communicate()
        if self.errors.closed:
            return ""
        with self.errors:
            self.errors.seek(0)
            return self.errors.read()


@pytest.fixture(scope="session")
def peers() -> Iterator[Callable[..., Peer]]:
    """``peers("flask_app", service="front")``: one process per distinct call, for the whole session."""
    running: Dict[Any, Peer] = {}

    def peer(app: str, *arguments: str, **options: Any) -> Peer:
        key = (app, arguments, tuple(sorted(options.items())))
        if key not in running:
            running[key] = Peer(app, *arguments, **options)
        return running[key]

    yield peer
    for each in running.values():
        each.stop()


@pytest.fixture
def own_peer() -> Iterator[Callable[..., Peer]]:
    """Like ``peers``, but for processes of this test only."""
    running: List[Peer] = []

    def peer(app: str, *arguments: str, **options: Any) -> Peer:
        running.append(Peer(app, *arguments, **options))
        return running[-1]

    yield peer
    for each in running:
        each.stop()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: Any) -> Tuple[str, str]:
    """Files with a key and its certificate for this machine."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    key, made = str(folder / "key.pem"), str(folder / "certificate.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout", key,
         "-out", made, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, made


def get_traced(url: str, plan: Any = None, **options: Any) -> Any:
    """The segment of the service that answers, and its reply."""
    with faultloom.starting(SIGNER, plan) as started:
        reply = requests.get(url, timeout=10, **options)
    assert started.history is not None
    return child_of(started.history.segment), reply


def ends(segment: faultloom.Segment) -> List[Any]:
    """Per call in order: ("replied" | "failed" | "open", status, gap, child service or None)."""
    found: Dict[int, Any] = {}
    for event in segment.events:
        if event.kind == SEND_REQUEST:
            found[event.call] = ("open", None, False, None)
        elif event.kind in (RECV_RESPONSE, CALL_FAILED):
            kind = "replied" if event.kind == RECV_RESPONSE else "failed"
            found[event.call] = (kind, event.status, event.gap, event.child.service if event.child else None)
    return [found[call] for call in sorted(found)]


def faults_fired(segment: faultloom.Segment) -> List[Optional[int]]:
    return [event.fault for event in segment.events if event.kind == SEND_REQUEST]


def child_of(segment: faultloom.Segment, call: int = 1) -> faultloom.Segment:
    return next(e.child for e in segment.events if e.kind in (RECV_RESPONSE, CALL_FAILED) and e.call == call and e.child)


def until(condition: Callable[[], Any], seconds: float = 5) -> Any:
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)
