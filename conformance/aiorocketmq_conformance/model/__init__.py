"""Reference model: the semantics of RocketMQ as an executable specification over finished histories.

Pure and of the standard library only.
"""
