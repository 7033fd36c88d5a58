"""The words that the bookshop's catalogue is made of."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


SHOP = "The Lantern Bookshop"

WELCOME = (
    "Three floors of books above a quiet street, and every one of them has been read by somebody "
    "who works here. Look through the shelves, or begin with what came in this week."
)

STYLE = (
    "body{font:16px/1.5 Georgia,serif;max-width:60em;margin:auto;padding:1em;color:#222}"
    "nav ul,footer ul{display:flex;flex-wrap:wrap;gap:1em;list-style:none;padding:0}"
    ".logo{font-size:1.6em}.price{color:#a33}.breadcrumbs{font-size:.9em}"
    "article{border-bottom:1px solid #ddd}aside{background:#f6f3ee;padding:1em}"
)

CATEGORIES = [
    "Adventure",
    "Biography",
    "Cookery",
    "Crime",
    "Fantasy",
    "Gardening",
    "History",
    "Poetry",
    "Popular Science",
    "Science Fiction",
    "Sea Stories",
    "Travel",
]

FIRST_NAMES = _words("""
Ada Agnes Albin Amara Anselm Beatrix Bruno Carys Cecil Clara Dario Edith Elias Esther Felix
Freya Gideon Greta Hannah Hector Ida Ingrid Ivo Jonas Judith Kaspar Leonora Linus Mabel Magnus
Marta Milo Nadia Nils Odile Oscar Petra Quentin Rosa Rufus Selma Silas Tamsin Theo Ursula Vera
""")

LAST_NAMES = _words("""
Abbott Ashdown Barlow Birch Calloway Carver Dunmore Ellery Fairfax Fenwick Garrick Greaves
Hargrove Holloway Ibbotson Jessop Kestrel Lindqvist Lockhart Marlowe Mercer Nightingale Oakes
Pemberton Penrose Quill Ravenscroft Rowntree Sallow Sorrel Thackeray Thorne Underhill Vance
Wainwright Wexford Yarrow Zeller
""")

ADJECTIVES = _words("""
amber ancient borrowed brittle burning careful distant drowned early empty faithful forgotten
gentle gilded hidden hollow hungry invisible last little long lost lucky marble midnight narrow
northern patient paper quiet restless salted scarlet second secret silent silver slow stolen
stubborn sudden tangled unfinished velvet wandering weathered wild winter
""")

NOUNS = _words("""
alphabet archive atlas bakery bell bridge cartographer cathedral clockmaker coast compass
comet diary engine ferry forest gardener garden glacier harbour horizon house inheritance island
journey kitchen ladder lantern letter library lighthouse machine map meadow mirror mountain
museum orchard orchestra painter piano promise quarry railway recipe river sailor season shadow
station storm summer telescope theatre tide tower valley violin voyage window winter workshop
""")

PLACES = _words("""
Aldermoor Bellhaven Carrick Dunmarrow Eastwick Fallowmere Grimsay Harrowgate Innisfell Jorvik
Kilbride Lowestone Merrow Northam Oxmoor Penhallow Quay Rookhope Skerry Tarrant Ulvik Varenna
Westray Yarmouth
""")

TITLES = [
    "The {adjective} {noun}",
    "The {adjective} {noun} of {place}",
    "A {noun} in {place}",
    "The {noun} and the {other}",
    "{adjective} {noun}",
    "Letters from {place}",
    "The {noun} at {place}",
    "How to Build a {noun}",
    "Beyond the {adjective} {noun}",
    "The Last {noun}",
]

SENTENCES = [
    "It begins with a {adjective} {noun} and ends, many years later, in {place}.",
    "Nobody in {place} speaks of the {noun}, and nobody has forgotten it.",
    "The {adjective} {noun} is as much a character here as any of the family.",
    "Between the {noun} and the {other} lies a story that took thirty years to write.",
    "A {adjective} book about a {adjective} {noun}, told without a wasted word.",
    "What the {noun} kept, the {other} gave away.",
    "The chapters on {place} alone are worth the price.",
    "You will not look at a {noun} in the same way again.",
    "Readers of the first edition will find a new foreword and a map of {place}.",
    "There is a {noun} on the first page; watch it closely.",
    "The author lived for a winter in {place}, and one feels the {adjective} weather.",
    "Warm, exact and often funny, it makes a {noun} of a {other}.",
]

#: The pages that every page's footer names: their path, title and paragraphs.
NOTICES: dict[str, tuple[str, list[str]]] = {
    "/about/": (
        "About us",
        [
            "The shop opened in a former chandlery in 1974. The lantern over the door is the "
            "original one, and it is still lit at four o'clock in winter.",
            "We sell new books and old ones, and we do not sort them apart.",
        ],
    ),
    "/delivery/": (
        "Delivery",
        [
            "Orders placed before noon leave the same day. Within the country a parcel takes two "
            "working days; abroad, five to ten.",
            "Orders of more than three books travel free of charge.",
        ],
    ),
    "/returns/": (
        "Returns",
        [
            "A book that disappoints may come back within thirty days, if it still looks unread. "
            "We refund the price, and the postage if the fault was ours.",
        ],
    ),
    "/events/": (
        "Readings and events",
        [
            "On the first Thursday of the month somebody reads aloud in the attic. There is tea, "
            "and there are never enough chairs.",
        ],
    ),
    "/privacy/": (
        "Privacy",
        [
            "We remember what you ordered for as long as the tax office wants us to, and not a "
            "day longer. We set no cookies.",
        ],
    ),
    "/contact/": (
        "Contact",
        [
            "Come by on any day but Monday, between ten and six, or write. The telephone is "
            "behind the till and we do not always hear it.",
        ],
    ),
}
