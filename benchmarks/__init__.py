"""Programs that measure, as ratios within one run: ``make bench``. The package knows nothing of them."""
