"""Unit tests of the sign-in at the terminal."""
