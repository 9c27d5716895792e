"""Reading and writing of files and tables: atomic files, arrays, JSON, saved models, checkpoints."""
