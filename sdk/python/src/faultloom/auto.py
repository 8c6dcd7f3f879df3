"""``import faultloom.auto`` installs the hooks. Import it before the libraries to hook, preferably first."""

from .hooks.install import install

install()
