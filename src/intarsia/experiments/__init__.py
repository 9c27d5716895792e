"""Tables and figures as functions that return rows; benchmark workloads and the peers they are measured against."""
