"""What names mean while a block is elaborated."""
