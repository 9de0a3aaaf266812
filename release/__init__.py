"""Tools of a release: distributions, the list of parts, the pages of the reference (RELEASING.md)."""
