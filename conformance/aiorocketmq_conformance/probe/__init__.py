"""Clients that send any request, valid or not, and decide nothing: they judge a broker without a client library.

`client` speaks gRPC, `remoting` the classic protocol; `checker` and `push` play a producer that answers checks and a
push consumer; `proxy` and `wire` stand between a client and a broker. `clock` is the time of a case. Imports nothing
of the suite but `blocks` and `verdicts`.
"""
