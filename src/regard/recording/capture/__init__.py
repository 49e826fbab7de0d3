"""How the attention of a running model is overheard, one file for each way that it is called."""
