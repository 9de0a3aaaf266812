"""Results of earlier versions: a backup with a bit of everything of each, and the digests of its migrations."""
