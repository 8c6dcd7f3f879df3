"""The callee's name for a request is the template of its route."""

from __future__ import annotations

from typing import Any, Optional

import pytest
import requests
from conftest import SIGNER, child_of, ends

import faultloom
from faultloom import Fault, Selector
from faultloom.hooks.http.django import template as django_template
from faultloom.hooks.http.flask import template as flask_template
from faultloom.wire.names import template_name


@pytest.mark.parametrize(
    ("template", "path", "name"),
    [
        ("/product/{id}", "/product/OLJ?x=1", "/product/{id}"),
        ("/files/{name}.json", "/files/a.json", "/files/{name}.json"),
        ("/files/{*path}", "/files/a/b", "/files/{*path}"),
        ("/files/{*path}", "/files/", "/files/{*path}"),
        ("/files/*", "/files/a/b", "/files/*"),
        ("/a/*/c", "/a/b/c", "/a/*/c"),
        ("/a/{id}/", "/a/1", "/a/{id}"),
        ("/a/{id}", "/a/1/", "/a/{id}/"),
        ("/", "", "/"),
        # a prefix, another path, wildcards alone
        ("/static/", "/static/a", ""),
        ("/", "/a", ""),
        ("/b/{id}", "/a/1", ""),
        ("/*", "/a", ""),
        ("/{*path}", "/a/b", ""),
        ("", "/a", ""),
    ],
)
def test_templates_name_the_requests_that_they_cover(template: str, path: str, name: str) -> None:
    assert template_name("GET", path, template) == (f"GET {name}" if name else "")


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("cart/<int:id>/", "/cart/{id}/"),
        ("files/<path:name>", "/files/{*name}"),
        ("", "/"),
        (r"^cart/(?P<id>[0-9]{2}[)\]])/$", "/cart/{id}/"),
        (r"^a/([^]/]+)/(?P<b>(x|y))\.json\Z", "/a/*/{b}.json"),
        (r"api/<int:v>/year/(?P<year>[0-9]{4})/$", "/api/{v}/year/{year}/"),
        (r"^a/(?P<b>x)?$", None),
        (r"^a/(?:b|c)$", None),
        (r"^a/[0-9]+$", None),
        (r"^a/\d+$", None),
        (r"^a/(?P<b>x", None),
    ],
)
def test_patterns_of_django_as_templates(route: str, expected: Optional[str]) -> None:
    assert django_template(route) == expected


def test_rules_of_flask_as_templates() -> None:
    rule = "/a/<b>/<int(fixed_digits=2):c>/<any(x, 'y'):d>/<path:e>"
    assert flask_template(rule) == "/a/{b}/{c}/{d}/{*e}"


def child(url: str, plan: Any = None, status: int = 200) -> Any:
    """The segment of the service that answers, and the body."""
    with faultloom.starting(SIGNER, plan) as started:
        reply = requests.get(url, timeout=10)
    assert reply.status_code == status and started.history is not None
    return child_of(started.history.segment), reply.content


SERVERS = pytest.mark.parametrize("server", [(), ("asgi",)])


@SERVERS
@pytest.mark.parametrize(
    ("path", "name", "status"),
    [
        ("/", "/", 200),
        ("/product/OLJCESPC7Z?x=1", "/product/{id}", 200),
        ("/api/2/cart/ann/", "/api/{version}/cart/{user}/", 200),
        ("/api/2/year/2024/", "/api/{version}/year/{year}/", 200),
        ("/archive/2024-05/may/", "/archive/{year}-{month}/*/", 200),
        ("/any/a", "/any/a", 200),
        ("/prefix/x/17", "/prefix/x/{id}", 200),
        ("/files/a/b/c", "/files/{*name}", 200),
        ("/none/17", "/none/{id}", 404),
        ("/boom/17", "/boom/{id}", 500),
    ],
)
def test_django_names_calls_by_its_url_patterns(peers: Any, server: Any, path: str, name: str, status: int) -> None:
    segment, _ = child(peers("django_app", *server, service="shop").url + path, status=status)
    assert (segment.service, segment.name) == ("shop", f"GET {name}")


@SERVERS
def test_django_is_traced_and_faulted(peers: Any, server: Any) -> None:
    front, back = peers("django_app", *server, service="front"), peers("flask_app", service="back")
    plan = [Fault("unavailable", Selector("front", "", "GET /echo"))]
    for faults, body, end in (
        (None, b"via:hello", ("replied", 200, False, "back")),
        (plan, b"via:ConnectionError", ("failed", 14, False, None)),
        (None, b"via:hello", ("replied", 200, False, "back")),
    ):
        segment, found = child(f"{front.url}/chain?url={back.url}/echo", faults)
        assert found == body and ends(segment) == [end]


@SERVERS
def test_a_long_reply_of_django_has_a_tail(peers: Any, server: Any) -> None:
    segment, body = child(peers("django_app", *server, service="shop").url + "/stream?n=9000")
    assert segment.name == "GET /stream" and body == b"".join(b"line %d\n" % i for i in range(9000))


@SERVERS
def test_django_serves_untraced_requests_unchanged(peers: Any, server: Any) -> None:
    reply = requests.get(peers("django_app", *server, service="shop").url + "/product/a", timeout=10)
    assert reply.content == b"ok" and not [name for name in reply.headers if "faultloom" in name.lower()]
