from small import gguf, tiny

__all__ = ["gguf", "tiny"]
