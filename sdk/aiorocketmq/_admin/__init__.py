"""What `Admin` asks of name servers and brokers, by subject: topics, groups, consumers, offsets, messages, users."""
