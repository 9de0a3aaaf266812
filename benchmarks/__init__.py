"""What the figures in the documentation were made with; each module is a command."""
