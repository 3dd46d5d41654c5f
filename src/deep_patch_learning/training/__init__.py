"""Training: samples -> loop -> run folder; early stopping, several ranks, distillation, self-training."""
