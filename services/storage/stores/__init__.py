"""Where bytes lie: the stores of a site, which of them is written to, and how one becomes a copy of another."""
