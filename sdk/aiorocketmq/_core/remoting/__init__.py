"""Pure codec of the classic remoting protocol: frames, message records, batches; remoting-protocol.md 1, 5, 7."""
