"""Unit tests of the issuers of JSON Web Tokens."""
