"""Forges: servers of git repositories, such as GitHub, whose tokens are credentials in repositories tied to them."""
