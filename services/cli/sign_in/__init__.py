"""Sign-in of people at the terminal. The credential helper imports nothing but this and the standard library."""
