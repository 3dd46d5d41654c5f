"""The paper's tables, trained and measured here: ours beside the paper's, what differs, and whether its claims hold."""
