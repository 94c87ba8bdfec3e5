"""From stored rows to tables: the row contract, the store, statistics and rendering."""
