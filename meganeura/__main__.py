"""`python -m meganeura` is the command line."""

from meganeura.cli.main import main

if __name__ == "__main__":
    main()
