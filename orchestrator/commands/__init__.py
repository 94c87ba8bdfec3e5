"""The command line's commands, by what they are for. Each imports what it needs when it runs."""
