"""Arrays, texts, files and compilation, which know nothing of recommending."""
