"""The beginning of every token, by which people, scanners and the facade recognise one."""

TOKEN_PREFIX = "tp_"  # noqa: S105 - what all secrets have in common is none
