"""The paper's tables, trained and measured here, beside the paper's figures."""
