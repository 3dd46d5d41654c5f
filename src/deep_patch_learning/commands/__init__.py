"""What a user can do: one module per command, each with its function and its display."""
