"""A crawl to watch: three workers, one frontier, and one of the workers killed half-way."""
