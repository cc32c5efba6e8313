"""The same waves and kernels without Spark: a test kit, not a product."""
