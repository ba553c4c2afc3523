"""SQL92 filter expressions over the properties of messages: read once, then asked for each message (5.6).

`tokens` cuts the text, `parser` makes `nodes` of it, `comparison` knows how values compare,
`values.sql_dialect` names where readings differ. `properties` says what an expression sees of a message.
"""
