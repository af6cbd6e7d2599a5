"""Arrays, texts, files and compilation, independent of recommending."""
