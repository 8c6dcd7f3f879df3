"""A Django service, under WSGI or with the argument "asgi" under ASGI, that does not import Faultloom."""

import socket
import sys

import requests
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import include, path, re_path
from lifetime import announce
from werkzeug.serving import make_server


def ok(request, *args, **kwargs):
    return HttpResponse("ok")


def chain(request):
    try:
        return HttpResponse("via:" + requests.get(request.GET["url"], timeout=5).text)
    except requests.RequestException as error:
        return HttpResponse("via:" + type(error).__name__)


def stream(request):
    return StreamingHttpResponse(f"line {i}\n" for i in range(int(request.GET["n"])))


def boom(request):
    raise RuntimeError("boom")


urlpatterns = [
    path("", ok),
    path("product/<slug:id>", ok),
    path("api/<int:version>/", include([path("cart/<str:user>/", ok), re_path(r"^year/(?P<year>[0-9]{4})/$", ok)])),
    re_path(r"^archive/(?P<year>[0-9]{4})-(?P<month>[0-9]{2})/(\w+)/$", ok),
    re_path(r"^any/(?:a|b)/?$", ok),
    re_path(r"^prefix/", ok),
    path("files/<path:name>", ok),
    path("chain", chain),
    path("stream", stream),
    path("boom/<int:id>", boom),
]

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="not secret", DEBUG=False, LOGGING_CONFIG=None)
if "asgi" in sys.argv:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    announce(listener.getsockname()[1])
    uvicorn.Server(uvicorn.Config(get_asgi_application(), log_level="error", lifespan="off")).run(sockets=[listener])
else:
    server = make_server("127.0.0.1", 0, get_wsgi_application(), threaded=True)
    announce(server.server_port)
    server.serve_forever()
