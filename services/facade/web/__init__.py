"""HTTP by itself: headers, media types, bodies and their schemas; no service is called here."""
