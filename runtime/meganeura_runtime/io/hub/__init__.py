"""Pretrained weights from a hub: what is asked for, downloaded, compared and converted."""
