"""The shop's services that are written in Python."""
