"""`python -m aiorocketmq`: the command line, where its script is not on the search path."""

from aiorocketmq.cli import main

if __name__ == "__main__":
    main()
