"""`python -m simsched` is the command line."""

from simsched.cli import main

main()
