"""Free space and bandwidth: what may still be written and moved; no bytes."""
