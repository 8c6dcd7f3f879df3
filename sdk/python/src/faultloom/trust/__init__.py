"""Keys and trust settings, verification of received envelopes, and signing of new ones."""
