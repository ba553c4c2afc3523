"""The classic remoting protocol that name servers and brokers of 4.x and 5.x speak; remoting-protocol.md."""
