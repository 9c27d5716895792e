"""Tools shared by all packages: validation, registries, compilation, progress, parallel work, status, transactions."""
