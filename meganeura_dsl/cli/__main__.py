"""`python -m meganeura_dsl.cli` is the command line."""

from meganeura_dsl.cli.main import main

if __name__ == "__main__":
    main()
