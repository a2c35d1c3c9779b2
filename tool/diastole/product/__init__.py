"""Generate the product directory, and keep generated products for later runs."""
