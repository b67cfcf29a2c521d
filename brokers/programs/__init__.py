"""Brokers in any language: a program gets events on its standard input and answers with actions (docs/exec.md).

A program is named by its command, `exec:./broker --fast`. `spelling.py` reads such names, `hello.py` is what a program
says of itself, `process.py` starts, asks and ends one, `events.py` and `actions.py` are what it is told and answers,
`protocol.py` makes a protocol of it.
"""
