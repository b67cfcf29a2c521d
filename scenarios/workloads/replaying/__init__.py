"""How the workload `replay` reads files: pieces of them, their header, times, cells, and what lives in them."""
