"""Requests that enter the traced system here: sampling, export of their histories, and the status file."""
