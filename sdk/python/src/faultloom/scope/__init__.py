"""Scopes: numbering and recording the calls of one request, fault decisions, and the scope of the running code."""
