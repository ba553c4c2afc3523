"""The wire contract `apache.rocketmq.v2`: our own text of it, its message classes and its methods.

`definition.proto`, `service.proto` and `admin.proto` in this folder are the source. `aiorocketmq.wire.messages` has one
class per message and enum, `aiorocketmq.wire.methods` one row per call, `aiorocketmq.wire.grpcio_settings` the settings
that grpcio reads from environment variables, `aiorocketmq.wire.plain_text` the escaping of received text. Client and
fake broker share this package and nothing that decides."""
