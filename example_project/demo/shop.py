"""A bookshop that does not exist: its catalogue, and the HTML pages made from it.

All of it follows from the arguments, so two processes that make the same shop know the same pages.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape

from . import words

#: Books on one page of a category's list.
PAGE_SIZE = 20
#: Links to similar books on a book's page.
RELATED = 6


@dataclass(frozen=True)
class Book:
    number: int
    title: str
    author: str
    category: str
    year: int
    price: float
    stock: int
    pages: int
    blurb: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"/book/{self.number:04d}-{slug(self.title)}/"


def slug(text: str) -> str:
    """Return the text as it stands in a URL."""
    kept = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return "-".join(kept.split())


def category_path(category: str, page: int = 1) -> str:
    path = f"/category/{slug(category)}/"
    return path if page == 1 else f"{path}?page={page}"


def author_path(author: str) -> str:
    return f"/author/{slug(author)}/"


def link(path: str, text: str) -> str:
    return f'<a href="{escape(path)}">{escape(text)}</a>'


def list_of(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


class Shop:
    """The shop, and a way to render each of its pages.

    :param books: how many books it sells.
    :param seed: another seed gives another catalogue.
    """

    def __init__(self, books: int = 1920, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._authors = self._invent_authors(max(1, books // 11))
        self.books = [self._invent_book(number) for number in range(1, books + 1)]
        self.by_category: dict[str, list[Book]] = {name: [] for name in words.CATEGORIES}
        self.by_author: dict[str, list[Book]] = defaultdict(list)
        for book in self.books:
            self.by_category[book.category].append(book)
            self.by_author[book.author].append(book)
        self._nav = list_of(link(category_path(name), name) for name in words.CATEGORIES)
        self._footer = list_of(link(path, title) for path, (title, _) in words.NOTICES.items())
        self._renderers = dict(self._pages())

    def paths(self) -> list[str]:
        """Return the path of every page. Each can be reached from ``/`` through links."""
        return list(self._renderers)

    def render(self, path: str) -> str:
        """Return a page's HTML.

        :raises KeyError: if the shop has no such page.
        """
        return self._renderers[path]()

    def _pages(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "/", self._home
        for category, books in self.by_category.items():
            for number in range(1, page_count(books) + 1):
                yield category_path(category, number), partial(self._category, category, number)
        for book in self.books:
            yield book.path, partial(self._book, book)
        for author in self.by_author:
            yield author_path(author), partial(self._author, author)
        for path in words.NOTICES:
            yield path, partial(self._notice, path)

    # --- Inventing the catalogue ---

    def _invent_authors(self, count: int) -> list[str]:
        names = [f"{first} {last}" for first in words.FIRST_NAMES for last in words.LAST_NAMES]
        return self._random.sample(names, min(count, len(names)))

    def _invent_book(self, number: int) -> Book:
        pick = self._random
        return Book(
            number=number,
            title=self._invent(words.TITLES, str.title),
            author=pick.choice(self._authors),
            category=pick.choice(words.CATEGORIES),
            year=pick.randint(1952, 2025),
            price=pick.randint(499, 3499) / 100,
            stock=pick.randint(0, 40),
            pages=pick.randint(96, 720),
            blurb=tuple(self._invent_paragraph() for _ in range(3)),
        )

    def _invent_paragraph(self) -> str:
        count = self._random.randint(3, 5)
        return " ".join(self._invent(words.SENTENCES, str) for _ in range(count))

    def _invent(self, patterns: list[str], change: Callable[[str], str]) -> str:
        pick = self._random
        text = pick.choice(patterns).format(
            adjective=change(pick.choice(words.ADJECTIVES)),
            noun=change(pick.choice(words.NOUNS)),
            other=change(pick.choice(words.NOUNS)),
            place=pick.choice(words.PLACES),
        )
        return re.sub(r"\b([Aa]) (?=[AEIOUaeiou])", r"\1n ", text)

    # --- The pages ---

    def _layout(self, title: str, crumbs: list[str], main: str) -> str:
        trail = " &rsaquo; ".join([link("/", "Home"), *crumbs])
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>{escape(title)} | {words.SHOP}</title>\n"
            f'<meta name="description" content="{escape(title)} at {words.SHOP}">\n'
            f"<style>{words.STYLE}</style>\n</head>\n<body>\n"
            f'<header><p class="logo">{link("/", words.SHOP)}</p><nav>{self._nav}</nav></header>\n'
            f'<p class="breadcrumbs">{trail}</p>\n<main>\n{main}\n</main>\n'
            f"<footer>{self._footer}<p>Write to "
            f'<a href="mailto:shop@example.org">shop@example.org</a>, or visit '
            f'<a href="https://www.example.org/">our sister shop</a>.</p></footer>\n'
            "</body>\n</html>\n"
        )

    def _teaser(self, book: Book) -> str:
        return (
            f'<article class="book"><h3>{link(book.path, book.title)}</h3>'
            f'<p>by {escape(book.author)}, {book.year}. <span class="price">£{book.price:.2f}'
            f"</span></p></article>"
        )

    def _home(self) -> str:
        newest = sorted(self.books, key=lambda book: (-book.year, book.number))[:12]
        main = (
            f"<h1>{words.SHOP}</h1><p>{escape(words.WELCOME)}</p><h2>New on our shelves</h2>"
            + "".join(map(self._teaser, newest))
            + "<h2>Shelves</h2>"
            + list_of(
                f"{link(category_path(name), name)} ({len(books)} books)"
                for name, books in self.by_category.items()
            )
        )
        return self._layout("Books old and new", [], main)

    def _category(self, category: str, number: int) -> str:
        books = self.by_category[category]
        last = page_count(books)
        shown = books[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        pager = [link(category_path(category, page), str(page)) for page in range(1, last + 1)]
        if number < last:
            pager.append(link(category_path(category, number + 1), "next"))
        main = (
            f"<h1>{escape(category)}</h1>"
            f"<p>{len(books)} books, page {number} of {last}.</p>"
            + "".join(map(self._teaser, shown))
            + f'<p class="pager">{" ".join(pager)}</p>'
        )
        crumbs = [link(category_path(category), category)]
        if number > 1:
            crumbs.append(f"Page {number}")
        return self._layout(f"{category}, page {number}", crumbs, main)

    def _book(self, book: Book) -> str:
        shelf = self.by_category[book.category]
        place = shelf.index(book)
        related = [shelf[(place + step) % len(shelf)] for step in range(1, RELATED + 1)]
        main = (
            f"<h1>{escape(book.title)}</h1><p>by {link(author_path(book.author), book.author)}</p>"
            f'<p class="price">£{book.price:.2f}</p><p>{book.stock} in stock. '
            f'<a href="#details">Details</a></p>'
            + "".join(f"<p>{escape(paragraph)}</p>" for paragraph in book.blurb)
            + f'<table id="details"><tr><th>Number</th><td>{book.number:04d}</td></tr>'
            f"<tr><th>Published</th><td>{book.year}</td></tr>"
            f"<tr><th>Pages</th><td>{book.pages}</td></tr>"
            f"<tr><th>Shelf</th><td>{link(category_path(book.category), book.category)}</td></tr>"
            "</table><aside><h2>Readers also bought</h2>"
            + "".join(self._teaser(other) for other in related if other is not book)
            + "</aside>"
        )
        crumbs = [link(category_path(book.category), book.category), escape(book.title)]
        return self._layout(book.title, crumbs, main)

    def _author(self, author: str) -> str:
        books = self.by_author[author]
        shelves = sorted({book.category for book in books})
        main = (
            f"<h1>{escape(author)}</h1><p>{len(books)} books, the first of {books[0].year}.</p>"
            + "".join(map(self._teaser, books))
            + "<h2>Found on these shelves</h2>"
            + list_of(link(category_path(name), name) for name in shelves)
        )
        return self._layout(author, ["Authors", escape(author)], main)

    def _notice(self, path: str) -> str:
        title, text = words.NOTICES[path]
        paragraphs = "".join(f"<p>{escape(part)}</p>" for part in text)
        return self._layout(title, [escape(title)], f"<h1>{escape(title)}</h1>{paragraphs}")


def page_count(books: list[Book]) -> int:
    """Return how many pages a list of books takes; an empty one takes a page too."""
    return max(1, -(-len(books) // PAGE_SIZE))
