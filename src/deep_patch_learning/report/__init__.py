"""Numbers + images -> a page: one self-contained HTML file that shows what a training learned."""
