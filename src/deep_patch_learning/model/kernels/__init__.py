"""Compiled kernels: RoI max-pooling for CPU and GPU, fused convolutions."""
