"""The storage service: the objects of repositories, their index, and the backends that hold bytes."""
