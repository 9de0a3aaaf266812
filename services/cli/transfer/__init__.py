"""The commands `towpath repo import` and `towpath repo export`."""
