"""The sweep file: its schema, its catalogue of names, and what it expands to."""
