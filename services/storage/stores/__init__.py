"""The stores of a site as this process has them open, and which of them is the primary."""
