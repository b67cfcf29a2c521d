"""What makes faults: one class for each name that an entry of `faults.schedule` may give."""
