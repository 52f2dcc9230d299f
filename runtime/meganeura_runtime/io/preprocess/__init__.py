"""Images and sounds made into the tensors that networks are trained on."""
