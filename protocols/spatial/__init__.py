"""The kind `spatial`: a new object reaches the subscriptions that have it among their k nearest."""
