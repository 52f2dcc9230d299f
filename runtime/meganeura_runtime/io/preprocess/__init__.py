"""Images and sounds converted to tensors, as the networks were trained on them."""
