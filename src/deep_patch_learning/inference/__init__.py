"""Images -> predictions: load a model, score patches, select boxes, calibrate. Never imports training."""
