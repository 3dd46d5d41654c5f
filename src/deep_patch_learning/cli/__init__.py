"""The command line: reads options, calls one command, shows its result."""
