"""The pass `online-softmax`."""
