"""The front end of Meganeura: a `.mgn` file is parsed, proved and differentiated here.

Nothing in this package needs a GPU.
"""

__version__ = "0.2.0"
