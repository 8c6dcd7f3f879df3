"""How calls and callees are named.

A service matches its own calls by the raw path. Histories contain the normalized one, so that ``/cart/17`` and
``/cart/18`` have the same call name and a plan made from one run applies to the next.
"""

from __future__ import annotations

import re

from .primitives import truncate_text

NAME_BYTES = 200
SERVICE_BYTES = 64

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_DIGIT = re.compile(r"[0-9]")


def raw_http_name(method: str, target: str) -> str:
    """``METHOD /path`` without query and fragment. ``target`` may be an absolute URL (a request to a proxy)."""
    if "://" in target and not target.startswith("/"):
        _, slash, rest = target.split("://", 1)[1].partition("/")
        target = slash + rest
    path = target.split("?", 1)[0].split("#", 1)[0]
    return f"{method} {path or '/'}"


def normalize_http_name(raw: str) -> str:
    """The recorded form of a raw name: variable path segments become ``{id}``, at most 200 bytes."""
    if _DIGIT.search(raw) or "-" in raw:
        parts = raw.split("/")
        raw = "/".join(parts[:1] + ["{id}" if _is_variable(part) else part for part in parts[1:]])
    return truncate_text(raw, NAME_BYTES)


def _is_variable(part: str) -> bool:
    if _DIGIT.search(part) is None:
        return _UUID.fullmatch(part) is not None
    return (
        (part.isascii() and part.isdigit())
        or _HEX.fullmatch(part) is not None
        or len(part.encode("utf-8", "replace")) >= 20
        or _UUID.fullmatch(part) is not None
    )


def template_name(method: str, path: str, template: str) -> str:
    """``METHOD /cart/{user}``: the name that a callee records for a request, by the template of its route.

    Empty if the template does not name the request: it is a wildcard alone, or does not cover the path, as that of a
    prefix. ``path``: the raw path of the request. ``template``: with parameters as ``{name}``, wildcards as ``{*name}``
    or ``*``.
    """
    if not template.startswith("/") or template == "/*" or _WILDCARD_ALONE.fullmatch(template):
        return ""
    path = raw_http_name("", path)[1:]
    if path.endswith("/") != template.endswith("/"):  # routers may ignore a slash at the end
        if template.endswith("/"):
            template = template[:-1]
        elif not _is_wildcard(template.rpartition("/")[2]):
            template += "/"
    parts, found = template.split("/"), path.split("/")
    if _is_wildcard(parts[-1]) and len(found) >= len(parts):
        found[len(parts) - 1 :] = parts[-1:]
    if len(parts) != len(found):
        return ""
    covers = all("{" in part or part in ("*", text) for part, text in zip(parts, found))
    return truncate_text(f"{method} {template}", NAME_BYTES) if covers else ""


_WILDCARD_ALONE = re.compile(r"/\{\*[^}]*\}")


def _is_wildcard(part: str) -> bool:
    return part == "*" or part.startswith("{*")


_GRPC_SCHEME = re.compile(r"(?:dns|ipv4|ipv6|unix|unix-abstract|xds|passthrough|vsock|google-c2p):(?://[^/]*/)?")


def grpc_authority(target: str) -> str:
    """``host:port`` of a gRPC target, without the scheme and the resolver's authority."""
    return _GRPC_SCHEME.sub("", target, count=1) if _GRPC_SCHEME.match(target) else target


def http_authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
