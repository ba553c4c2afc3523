"""The edge of the classic remoting protocol, over the same core: frames, requests, and the port.

`server` reads and writes `frames`, `service` dispatches requests to the modules of their subjects. May import
`core` and what both edges share (`driver`, `faults`, `peers`, `tls`); shares no codec with the client.
"""
