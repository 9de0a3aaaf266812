"""The whole: the real client, crashes, races, big objects."""
