"""The wire contract `apache.rocketmq.v2`: our own text of it, its message classes and its methods.

`definition.proto`, `service.proto` and `admin.proto` in this folder are the source.
`aiorocketmq.wire.messages` has one class per message and enum, `aiorocketmq.wire.methods` one row per
call, `aiorocketmq.wire.grpcio_settings` what grpcio takes from environment variables, `aiorocketmq.wire.plain_text`
how received text is printed. This package is all that the client and the fake broker share.
"""
