"""Tools of the project, run as processes."""
