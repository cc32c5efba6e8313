"""The same waves and kernels without Spark: for tests and measurements, not for production."""
