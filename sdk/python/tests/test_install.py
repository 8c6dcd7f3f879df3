"""Installation: launcher, sitecustomize and the one after it, import order, unsupported versions."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import requests
from conftest import APPS, SIGNER, SOURCE, child_of, clean_environment, ends, trust_text

import faultloom

BOOT = str(SOURCE / "boot")
HOOKED = "import http.client; print(http.client.HTTPConnection.send.__code__.co_filename.endswith('hooks/http/client.py'))"


def python(*arguments, cwd=None, **env):
    """Runs a program with trust settings, unless ``FAULTLOOM_TRUST=""``."""
    env.setdefault("FAULTLOOM_TRUST", trust_text().replace("\n", ";"))
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd, env=clean_environment(**env))


def launcher(*arguments, cwd=None, **env):
    """Runs the launcher from the source folder."""
    path = str(SOURCE.parent)
    code = f"import sys; sys.path.insert(0, {path!r}); import faultloom.launcher as l; sys.argv[1:] = {list(arguments)!r}; sys.exit(l.main())"
    return python("-c", code, cwd=cwd, **env)


def test_pythonpath_alone_installs_the_hooks():
    ran = python("-c", HOOKED, PYTHONPATH=BOOT)
    assert ran.stdout.strip() == "True" and ran.stderr == ""


@pytest.mark.parametrize("text", ["", "nonsense"])
def test_without_trust_settings_nothing_is_hooked(text):
    code = "import http.client, threading, sys; " + HOOKED + "; print([f for f in sys.meta_path if 'faultloom' in type(f).__module__])"
    ran = python("-c", code, PYTHONPATH=BOOT, FAULTLOOM_TRUST=text)
    assert ran.stdout.split() == ["False", "[]"] and ran.stderr.count("\n") == (text != "")


def test_a_missing_trust_file_still_installs_the_hooks(tmp_path):
    assert python("-c", HOOKED, PYTHONPATH=BOOT, FAULTLOOM_TRUST="", FAULTLOOM_TRUST_FILE=str(tmp_path / "later")).stdout.strip() == "True"


def test_a_signer_installs_the_hooks_without_trust_settings():
    code = "import faultloom, faultloom.auto; " + HOOKED + "; faultloom.Signer(faultloom.Key('f', True, bytes(32)), 'e'); " + HOOKED
    assert python("-c", code, PYTHONPATH=BOOT, FAULTLOOM_TRUST="").stdout.split() == ["False", "True"]


def test_the_package_is_found_without_being_installed():
    code = "import faultloom, sys; print(faultloom.__file__); print([p for p in sys.path if 'faultloom' in p])"
    ran = python("-S", "-c", "import sitecustomize; " + code, PYTHONPATH=BOOT)
    assert ran.stdout.splitlines() == [str(SOURCE / "__init__.py"), str([BOOT])], ran.stderr


def test_one_line_installs_the_hooks_before_and_after_the_library():
    for order in ("import faultloom.auto; import http.client; ", "import http.client; import faultloom.auto; "):
        assert python("-c", order + HOOKED, PYTHONPATH=str(SOURCE.parent)).stdout.strip() == "True"


def test_an_existing_sitecustomize_is_run_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; print('other ran', __name__, __file__); sys.other = 1\n")
    ran = python("-c", "import sys, sitecustomize; print(sys.other, sitecustomize.__file__); " + HOOKED, PYTHONPATH=f"{BOOT}:{tmp_path}")
    other = str(tmp_path / "sitecustomize.py")
    assert ran.stdout.splitlines() == [f"other ran sitecustomize {other}", f"1 {other}", "True"], ran.stderr


def test_an_existing_sitecustomize_that_fails_leaves_the_program_running(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    ran = python("-c", HOOKED, PYTHONPATH=f"{BOOT}:{tmp_path}")
    assert ran.stdout.strip() == "True" and "theirs" in ran.stderr


def test_the_launcher_runs_a_script_with_its_arguments(tmp_path):
    (tmp_path / "app.py").write_text(HOOKED + "\nimport sys; print(sys.argv[1:])\n")
    ran = launcher("app.py", "one", "-two", cwd=tmp_path)
    assert ran.stdout.splitlines() == ["True", "['one', '-two']"], ran.stderr


def test_the_launcher_runs_a_module_and_a_console_program(tmp_path):
    (tmp_path / "thing.py").write_text(HOOKED + "\nimport sys; sys.exit(7)\n")
    ran = launcher("-m", "thing", cwd=tmp_path)
    assert (ran.stdout.strip(), ran.returncode) == ("True", 7), ran.stderr
    program = tmp_path / "console"
    program.write_text(f"#!{sys.executable}\n{HOOKED}\n")
    program.chmod(0o755)
    assert launcher("./console", cwd=tmp_path).stdout.strip() == "True"


def test_the_launcher_keeps_an_existing_pythonpath_and_explains_itself(tmp_path):
    (tmp_path / "mine.py").write_text("x = 1")
    ran = launcher("-c", "import mine, os; print(os.environ['PYTHONPATH'])", PYTHONPATH=str(tmp_path))
    assert ran.stdout.strip() == f"{BOOT}:{tmp_path}"
    assert launcher("--path").stdout.strip() == BOOT
    assert launcher().returncode == 2 and "faultloom-python" in launcher().stderr
    missing = launcher("no-such-program")
    assert missing.returncode == 127 and "not found" in missing.stderr


FLASK_SERVICE = """
import flask
app = flask.Flask("service")
@app.get("/cart/<int:id>")
def cart(id): return flask.Response(b"x" * id)
"""
FASTAPI_SERVICE = """
from fastapi import FastAPI, Response
app = FastAPI()
@app.get("/cart/{id}")
def cart(id: int): return Response(b"x" * id)
"""
AIOHTTP_SERVICE = """
from aiohttp import web
async def cart(request): return web.Response(body=b"x" * int(request.match_info["id"]))
def app(argv):
    app = web.Application()
    app.router.add_get("/cart/{id}", cart)
    return app
"""


@pytest.mark.parametrize(
    ("service", "arguments"),
    [
        (FLASK_SERVICE, ["gunicorn", "-b", "127.0.0.1:PORT", "service:app"]),
        (FASTAPI_SERVICE, ["hypercorn", "-b", "127.0.0.1:PORT", "service:app"]),
        (AIOHTTP_SERVICE, ["-m", "aiohttp.web", "-H", "127.0.0.1", "-P", "PORT", "service:app"]),
    ],
    ids=["gunicorn", "hypercorn", "aiohttp"],
)
def test_servers_start_through_the_launcher(tmp_path, service, arguments):
    (tmp_path / "service.py").write_text(service)
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [argument.replace("PORT", str(port)) for argument in arguments]
    code = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import faultloom.launcher as l; sys.argv[1:] = {arguments!r}; l.main()"
    env = clean_environment(FAULTLOOM_TRUST=trust_text().replace("\n", ";"), FAULTLOOM_SERVICE="unicorn")
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        from conftest import until

        def up():
            try:
                return requests.get(f"http://127.0.0.1:{port}/cart/1", timeout=1).ok
            except requests.RequestException:
                return False

        assert until(up, 20)
        session = requests.Session()
        with faultloom.starting(SIGNER) as started:
            for size in (3, 40_000, 100, 5_000_000):
                assert session.get(f"http://127.0.0.1:{port}/cart/{size}", timeout=10).content == b"x" * size
        assert ends(started.history.segment) == [("replied", 200, False, "unicorn")] * 4
        assert child_of(started.history.segment).name == "GET /cart/{id}"
    finally:
        process.terminate()
        process.wait(20)


def test_an_unsupported_version_is_refused_by_name_and_left_alone(tmp_path):
    (tmp_path / "httpx.py").write_text("__version__ = '0.10.0'\nclass HTTPTransport:\n    def handle_request(self): return 'original'\n")
    ran = python("-c", "import httpx; print(httpx.HTTPTransport().handle_request())", PYTHONPATH=f"{BOOT}:{tmp_path}")
    assert ran.stdout.strip() == "original"
    assert ran.stderr.count("\n") == 1 and "httpx 0.10.0 is not supported" in ran.stderr


def test_a_patch_that_fails_halfway_is_undone_with_one_line(tmp_path):
    (tmp_path / "httpx.py").write_text("__version__ = '0.28.1'\nclass HTTPTransport:\n    def handle_request(self): return 'original'\n")
    ran = python("-c", "import httpx; print(httpx.HTTPTransport().handle_request())", PYTHONPATH=f"{BOOT}:{tmp_path}")
    assert ran.stdout.strip() == "original" and ran.stderr.count("\n") == 1 and "left as it is" in ran.stderr


def test_an_unsupported_grpcio_is_refused_by_name_and_left_alone(tmp_path):
    package = tmp_path / "grpc"
    package.mkdir()
    (package / "__init__.py").write_text("from . import _channel\n")
    (package / "_grpcio_metadata.py").write_text("__version__ = '1.50.0'\n")
    (package / "_channel.py").write_text("class Channel:\n    def unary_unary(self): return 'original'\n")
    ran = python("-c", "import grpc; print(grpc._channel.Channel().unary_unary())", PYTHONPATH=f"{BOOT}:{tmp_path}")
    assert ran.stdout.strip() == "original" and ran.stderr.count("\n") == 1 and "grpcio 1.50.0 is not supported" in ran.stderr


@pytest.mark.parametrize("version", ["3.7.4", "4.0.0", "3.14.5"])
def test_an_aiohttp_that_is_unsupported_or_of_another_form_is_left_alone(tmp_path, version):
    package = tmp_path / "aiohttp"
    package.mkdir()
    (package / "__init__.py").write_text(f"__version__ = '{version}'\n")
    (package / "client.py").write_text("class BaseConnector:\n    def connect(self): return 'original'\n")
    (package / "web_protocol.py").write_text("class RequestHandler:\n    def _handle_request(self): return 'original'\n")
    code = "from aiohttp import client, web_protocol as w; print(client.BaseConnector().connect(), w.RequestHandler()._handle_request())"
    ran = python("-c", code, PYTHONPATH=f"{BOOT}:{tmp_path}")
    reason = "could not be patched" if version == "3.14.5" else f"{version} is not supported"
    assert ran.stdout.strip() == "original original"
    assert ran.stderr.count("\n") == 2 and ran.stderr.count(reason) == 2 and "aiohttp" in ran.stderr


def test_a_hook_of_http_server_that_fails_is_undone():
    code = "import http.server as s; print(s.BaseHTTPRequestHandler.parse_request.__code__.co_filename.endswith('http/server.py'))"
    break_it = "import faultloom.hooks.http.http_server as h; del h._socket_attribute; "
    ran = python("-c", break_it + code, PYTHONPATH=f"{BOOT}:{SOURCE.parent}")
    assert ran.stdout.strip() == "True" and ran.stderr.count("\n") == 1 and "http.server could not be patched" in ran.stderr


TWICE = """
import http.client, sys
import faultloom.auto
from faultloom.hooks.patching import Finder
finders = [f for f in sys.meta_path if type(f).__name__ == "Finder" and "faultloom" in type(f).__module__]
frames, send = 0, http.client.HTTPConnection.send
while send is not None and "faultloom" in send.__code__.co_filename:
    inner = [c.cell_contents for c in send.__closure__ or () if callable(c.cell_contents)]
    frames, send = frames + 1, next((f for f in inner if f.__name__ == "send"), None)
print(len(finders), frames, len([m for m in sys.modules if m == "faultloom" or m.endswith(".faultloom")]))
"""


def test_two_installations_load_the_package_once(tmp_path):
    copy = tmp_path / "faultloom"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    ways = (BOOT, f"{BOOT}:{SOURCE.parent}", f"{BOOT}:{copy / 'boot'}", f"{copy / 'boot'}:{BOOT}:{tmp_path}:{SOURCE.parent}")
    for way in ways:
        ran = python("-c", TWICE, PYTHONPATH=way)
        assert ran.stdout.split() == ["1", "1", "1"] and ran.stderr == "", way


def test_a_service_with_the_launcher_and_the_import_records_once(own_peer, tmp_path):
    for name in ("flask_app", "lifetime"):
        text = (APPS / f"{name}.py").read_text()
        (tmp_path / f"{name}.py").write_text(("import faultloom.auto\n" if name == "flask_app" else "") + text)
    front = own_peer(str(tmp_path / "flask_app"), service="front")
    with faultloom.starting(SIGNER) as started:
        assert requests.get(f"{front.url}/chain?url={front.url}/echo", timeout=5).text == "via:hello"
    (sent, received) = started.history.segment.events[:2]
    assert [event.kind for event in received.child.events] == [1, 2, 4]
    assert len(started.history.segment.events) == 3 and sent.call == 1


def test_hooked_modules_keep_their_own_loader_and_reload():
    code = (
        "import importlib, inspect, http.client as c; import importlib.machinery as m;"
        "print(type(c.__spec__.loader) is m.SourceFileLoader, type(c.__loader__) is m.SourceFileLoader, 'class HTTPConnection' in inspect.getsource(c))"
    )
    assert python("-c", code, PYTHONPATH=BOOT).stdout.strip() == "True True True"


def test_importing_the_package_imports_none_of_the_libraries():
    code = "import sys, faultloom.auto; print(sorted({'grpc', 'flask', 'httpx', 'aiohttp', 'http.client', 'http.server', 'requests', 'asyncio'} & set(sys.modules)))"
    assert python("-c", code, PYTHONPATH=str(SOURCE.parent)).stdout.strip() == "[]"


def test_the_service_name_defaults_to_the_programs(own_peer):
    front = own_peer("flask_app", FAULTLOOM_SERVICE="")
    with faultloom.starting(SIGNER) as started:
        requests.get(front.url + "/echo", timeout=5)
    assert ends(started.history.segment) == [("replied", 200, False, "flask_app")]


def test_peers_have_their_configured_names(own_peer, peers):
    back = peers("flask_app", service="back")
    front = own_peer("flask_app", service="front", FAULTLOOM_PEERS=f"other:1=x,{back.address}=storage")
    with faultloom.starting(SIGNER, [faultloom.Fault("reset", faultloom.Selector("front", "storage"))]) as started:
        assert requests.get(f"{front.url}/chain?url={back.url}/echo", timeout=5).text == "via:ConnectionError"
    assert started.history.segment.events[1].child.events[0].peer == "storage"


def test_apps_do_not_import_the_package():
    for app in APPS.glob("*_app.py"):
        assert "import faultloom" not in app.read_text()
