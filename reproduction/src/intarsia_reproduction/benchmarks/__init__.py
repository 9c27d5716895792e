"""Speed, memory and quality beside other libraries."""
