"""Files: paths, tables, CSV, column layouts, reading and writing."""
