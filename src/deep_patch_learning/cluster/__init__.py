"""Labels and patches by many processes on many machines: `parts` cuts the data, `engine` hands the parts to Ray's workers."""
