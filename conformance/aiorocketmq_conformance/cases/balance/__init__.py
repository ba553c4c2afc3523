"""Members of a group share messages and queues, join, leave and crash; inventory 4.13."""
