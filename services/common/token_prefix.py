"""The prefix of every token, by which people, secret scanners and the facade recognise a token."""

TOKEN_PREFIX = "tp_"  # noqa: S105 - what all secrets have in common is none
