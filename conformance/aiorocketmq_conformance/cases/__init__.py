"""The cases. Importing a module declares its cases; `case.load` imports all of them.

One package for each subject: `client` (sessions, routes, the client library), `produce`, `consume` (receive, settle,
push, pull), `balance` (members of a group share its queues), `order`, `retry`, `dead_letters`, `transactions`,
`delay`, `lite`, `filters`, `offsets` (and retention), `access`, `limits`, `faults`. They do not import one another:
what several of them need is in `shared`. A case uses the fixture, the tolerances and the probes, and nothing of
`targets`: it must not depend on which broker it judges.
"""
