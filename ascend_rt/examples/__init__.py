"""Real, short training programs; each is also a test."""
