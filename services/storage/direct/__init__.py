"""Direct transfer: clients read and write blobs at the store itself, by URLs that this service signs."""
