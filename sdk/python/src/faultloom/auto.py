"""``import faultloom.auto``: the one-line installation. Import it before the libraries it is to see, at best first."""

from .install import install

install()
