"""The program behind `towpath repo import` and `towpath repo export`: objects and locks from and to other places."""
