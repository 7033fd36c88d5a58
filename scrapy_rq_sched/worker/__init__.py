"""One worker's memory and rhythm: it knows neither Redis nor Scrapy's private names."""
