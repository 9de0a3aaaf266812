"""The command `towpath gc`: what git still names, and the removal of the rest."""
