"""The protocol, row by row, over plain HTTP against `towpath up`."""
