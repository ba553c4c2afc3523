"""Real Apache RocketMQ servers on this machine, from Maven's packages, for machines without Docker."""
