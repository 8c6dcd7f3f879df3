"""The versions of the package and of the message format that it implements."""

__version__ = "0.1.0"
SPEC_VERSION = 1
