"""The pages and requests of a browser that logs in or out."""

from __future__ import annotations

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from .api import answer
from .arguments import Arguments, read_body
from .files import Files
from .guesses import RETRY_AFTER, TooManyGuessesError
from .login import Login

#: The paths of the requests, and the files that the page of the login consists of.
LOGIN_PATH, LOGOUT_PATH = "/api/v1/login", "/api/v1/logout"
FILES = ("/static/style.css", "/static/icon.svg", "/static/login.js")
#: The parameter of the link.
TOKEN = "token"  # noqa: S105 - a name
#: The browser must not offer its own form, which knows no log-out, so the challenge is not "Basic".
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="scrapy frontier"'}
_OF_APPLICATION = {"WWW-Authenticate": 'Basic realm="scrapy frontier", charset="UTF-8"'}


class Entrance:
    """Lets browsers in and out.

    :param login: checks the password or token, and keeps the sessions.
    :param files: has the page of the login.
    """

    def __init__(self, login: Login, files: Files) -> None:
        self._login = login
        self._files = files

    def open_files(self) -> tuple[str, ...]:
        """Return the paths of the files that the page of the login needs."""
        return FILES if self._login.has_password or self._login.has_link else ()

    def is_link(self, connection: HTTPConnection, path: str) -> bool:
        """Return whether a request opens the link with a token."""
        return path == "/" and self._login.has_link and TOKEN in connection.query_params

    async def open_link(self, connection: HTTPConnection) -> Response:
        """Begin a session if the token is right, and lead to the page without the token in its address.

        A browser with a session needs no token: its link may be one of an earlier start.
        """
        if self._login.sessions.user_of(connection) is not None:
            return RedirectResponse("./", 303)
        try:
            is_right = await self._login.is_right(connection, connection.query_params[TOKEN])
        except TooManyGuessesError:
            return too_many()
        if not is_right:
            return self.refusal(connection, "/")
        response = RedirectResponse("./", 303)
        self._login.sessions.begin(self._login.user, connection, response)
        return response

    async def login(self, request: Request) -> Response:
        """Begin a session if the password is right."""
        password = Arguments(await read_body(request), ["password"]).text("password")
        if not (self._login.has_password or self._login.has_link):
            return JSONResponse({"error": "The dashboard has no password"}, 404)
        try:
            is_right = await self._login.is_right(request, password)
        except TooManyGuessesError:
            return too_many()
        if not is_right:
            return JSONResponse({"error": "The password is wrong"}, 401, _CHALLENGE)
        response = answer(said="Logged in")
        self._login.sessions.begin(self._login.user, request, response)
        return response

    async def logout(self, request: Request) -> Response:
        """End the session."""
        response = answer(said="Logged out")
        self._login.sessions.end(request, response)
        return response

    def refusal(self, connection: HTTPConnection, path: str) -> Response:
        """Return the answer to a request without a login: for a browser, the page of the login."""
        login, wants = self._login, connection.headers.get("accept", "")
        if path == "/" and "text/html" in wants and (login.has_password or login.has_link):
            data = self._files.data("login.html" if login.has_password else "link.html")
            return Response(data, 401, _CHALLENGE, "text/html; charset=utf-8")
        if login.has_link:
            text = (
                "Open the link that the command has printed at its start, or send its token as a bearer token"
            )
            return JSONResponse({"error": text}, 401, _CHALLENGE)
        text = "Log in with the user 'frontier' and the password"
        return JSONResponse({"error": text}, 401, _CHALLENGE if login.has_password else _OF_APPLICATION)


def too_many() -> Response:
    """Return the answer to a login that was not checked."""
    return JSONResponse(
        {"error": f"Too many logins wait, because of wrong passwords. Try again in {RETRY_AFTER} s"},
        429,
        {"Retry-After": str(RETRY_AFTER)},
    )
