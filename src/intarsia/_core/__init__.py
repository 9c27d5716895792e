"""Tools that every room uses: validation, registries, compilation, progress, parallel work, status, transactions."""
