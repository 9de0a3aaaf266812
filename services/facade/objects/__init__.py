"""Rules of batches and transfers, and the paths of their bytes; contains no parsing of requests."""
