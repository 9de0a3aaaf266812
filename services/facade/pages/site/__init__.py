"""Pages of the whole site, for administrators; AdminService decides for each call who is one."""
