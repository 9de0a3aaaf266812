"""The open stores of a site, and their roles."""
