"""What a recording answers: each in one streaming pass over the weights of all layers and heads."""
