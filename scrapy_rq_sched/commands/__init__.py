"""Commands that ``scrapy`` finds by the entry point group ``scrapy.commands``."""
