"""The commands, one file each: module, function and command have the same name."""
