"""A trained network as one file for other runtimes: ONNX, or a program of torch.export; and ONNX files used as models."""
