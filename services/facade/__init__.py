"""The facade: the protocol over HTTP, in front of the services that know objects and locks."""
