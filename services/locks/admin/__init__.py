"""AdminService: the operator's single door."""
