"""Which subscriptions does a new object matter to? Reverse top-k over keywords and places."""
