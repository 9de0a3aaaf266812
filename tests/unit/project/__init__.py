"""The project itself: generated code, documents, sizes."""
