"""Files: paths, tables, names of classes, reading and writing."""
