"""The codec of the wire format (docs/formats/messages.md).

Pure functions on bytes and text; imports nothing else of the SDK.
"""
