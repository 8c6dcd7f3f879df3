"""Hooks into libraries. Each module patches one side of one library when the application imports that library."""
