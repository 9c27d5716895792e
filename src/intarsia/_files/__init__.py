"""Files and tables, read and written: atomic files, arrays, JSON, saved models, checkpoints."""
