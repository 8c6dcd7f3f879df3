"""Faultloom for Python: message-level tracing and temporal fault injection, without a change to the application.

See README.md for installation; ``faultloom.auto`` or the ``faultloom-python`` launcher install the hooks.
"""

__version__ = "0.1.0"
SPEC_VERSION = 1

from .errors import FaultloomError
from .history import Event, History, Segment, decode_history
from .plan import After, Fault
from .selectors import Selector
from .signer import Signer, Started, starting
from .trust import Key

__all__ = [
    "After", "Event", "Fault", "FaultloomError", "History", "Key", "Segment", "Selector", "Signer", "Started",
    "decode_history", "starting",
]  # fmt: skip
