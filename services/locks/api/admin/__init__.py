"""AdminService, with one module for each kind of resource that it administers."""
