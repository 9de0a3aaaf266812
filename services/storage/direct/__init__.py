"""Direct transfer: clients read and write bytes at the store itself, by addresses that this service signs."""
