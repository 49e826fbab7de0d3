from small import cache, gguf, tiny

__all__ = ["cache", "gguf", "tiny"]
