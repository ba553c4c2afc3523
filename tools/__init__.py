"""What development needs and no user does: generators, and environments for other projects' clients."""
