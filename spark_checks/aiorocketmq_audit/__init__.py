"""aiorocketmq_audit: Spark jobs that prove or refute delivery promises from recordings."""
