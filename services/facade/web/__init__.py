"""Elements of HTTP: headers, media types, bodies and their schemas; calls no service."""
