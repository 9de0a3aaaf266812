"""What every service needs, and nothing of SQL or HTTP."""
