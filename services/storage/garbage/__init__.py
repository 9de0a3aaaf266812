"""Collections of garbage: what is retained, and the removal of the rest."""
