"""What every other package may use: errors, boxes, files, devices, progress, drawing."""
