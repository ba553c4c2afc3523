"""SQL92 filter expressions over message properties: parsed once, evaluated for each message (5.6).

`tokens` is the lexer, `parser` builds `nodes`, `comparison` compares values, `values.sql_dialect` has the differences
between dialects, `properties` the properties of a message that an expression sees.
"""
