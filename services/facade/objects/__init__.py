"""Rules of batches and transfers, and the ways of their bytes; no parsing of requests."""
