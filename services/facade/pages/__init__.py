"""Pages for people in a browser, rendered from what the inner services tell."""
