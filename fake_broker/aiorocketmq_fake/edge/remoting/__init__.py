"""The edge of the classic remoting protocol, over the same core: frames, requests, and the port."""
