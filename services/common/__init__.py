"""Code that all services share; it contains no SQL and nothing of the HTTP API of the facade."""
