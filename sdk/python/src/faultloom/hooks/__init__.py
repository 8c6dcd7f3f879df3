"""Hooks into libraries: each module here patches one library's side, when the application imports that library."""
