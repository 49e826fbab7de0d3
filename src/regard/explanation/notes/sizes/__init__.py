"""How much the parts of a Transformer hold and cost, and how that grows."""
