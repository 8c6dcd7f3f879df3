"""Faultloom for Python: message-level tracing and fault injection, without a change to the application.

See README.md for installation. ``faultloom.auto`` or the ``faultloom-python`` launcher installs the hooks.
"""

from .starting import Signer, Started, starting
from .trust.settings import Key
from .version import SPEC_VERSION, __version__
from .wire.errors import FaultloomError
from .wire.history import Event, History, Segment, decode_history
from .wire.plan import After, Fault
from .wire.selectors import Selector

__all__ = [
    "SPEC_VERSION", "After", "Event", "Fault", "FaultloomError", "History", "Key", "Segment", "Selector", "Signer", "Started",
    "__version__", "decode_history", "starting",
]  # fmt: skip
