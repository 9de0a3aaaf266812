"""Issuers of JSON Web Tokens by OpenID Connect: their keys, the verification of tokens, and what tokens may do."""
