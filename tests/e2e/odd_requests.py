"""Requests whose end can be read in more than one way, drawn from a seed: what attackers of framing send."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TYPE = "application/vnd.blob+json"
_UPGRADES = ["h2c", "websocket", "TLS/1.0", "foo"]
_TRAILERS = [
    "Authorization: Bearer x",
    "Content-Length: 5",
    "Transfer-Encoding: chunked",
    "Host: elsewhere",
    "X-Forwarded-For: 203.0.113.9",
    "X: " + "y" * 3_000,
]
_CODINGS = [
    ["Transfer-Encoding: chunked"],
    ["Transfer-Encoding: Chunked"],
    ["Transfer-Encoding:\tchunked"],
    ["Transfer-Encoding : chunked"],
    ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding: identity, chunked"],
    ["Transfer-Encoding: gzip, chunked"],
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: chunked\x0b"],
    ["Transfer-Encoding:", " chunked"],
    ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: identity"],
    ["X: y\n Transfer-Encoding: chunked"],
    ["X: y\nTransfer-Encoding: chunked"],
]


@dataclass(frozen=True)
class Odd:
    """One connection's bytes; answers to them may name no other oids than those that begin with `mark`."""

    mark: str
    data: bytes


class Drawing:
    """Draws requests of a user, whose Authorization header is `authorization`, on a repository at `path`."""

    def __init__(self, seed: int, *, path: str, host: str, authorization: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same ones each time
        self._path = path
        self._host = host
        self._authorization = authorization

    def request(self, mark: str) -> Odd:
        """Return one: a request in one of the framings, and what follows it."""
        kind = self._random.choice([self._lengths, self._chunked, self._both, self._upgrade, self._older])
        data = kind(mark)
        for _ in range(self._random.choice([0, 0, 1, 2])):
            data += self._plain(mark)
        if self._random.random() < 0.1:
            data = data.replace(b"\r\n", b"\n", self._random.choice([1, 3, 100]))
        return Odd(mark, data)

    def _body(self, mark: str) -> bytes:
        """Return the body of a batch; or one that is a whole request, which nobody may take for one."""
        batch = b'{"operation":"download","objects":[{"oid":"%b","size":1}]}' % mark.ljust(64, "0").encode()
        if self._random.random() < 0.5:
            return batch
        return self._head(f"Content-Length: {len(batch)}") + batch

    def _head(self, *lines: str, version: str = "HTTP/1.1") -> bytes:
        usual = [
            f"POST {self._path}/objects/batch {version}",
            f"Host: {self._host}",
            f"Authorization: {self._authorization}",
            f"Accept: {TYPE}",
            f"Content-Type: {TYPE}",
        ]
        return "\r\n".join([*usual, *lines, "", ""]).encode("latin-1")

    def _plain(self, mark: str) -> bytes:
        body = self._body(mark)
        return self._head(f"Content-Length: {len(body)}") + body

    def _length(self, body: bytes) -> list[str]:
        size = len(body)
        short = self._random.randrange(size)
        if self._random.random() < 0.4:
            return [f"Content-Length: {size}"]
        return self._random.choice(
            [
                [f"Content-Length: {size}"],
                [f"Content-Length: {size}", f"Content-Length: {size}"],
                [f"Content-Length: {size}, {size}"],
                [f"Content-Length: {size}", f"Content-Length: {short}"],
                [f"Content-Length: {short}"],
                [f"Content-Length: +{size}"],
                [f"Content-Length: -{size}"],
                [f"Content-Length: 0{size}"],
                [f"Content-Length: {size:#x}"],
                [f"Content-Length : {size}"],
                [f"Content-Length: {size} {size}"],
                ["Content-Length: 99999999999999999999"],
                ["Content-Length:"],
                ["Content-Length: 0"],
                [],
            ]
        )

    def _lengths(self, mark: str) -> bytes:
        body = self._body(mark)
        expect = self._random.choice([[], [], ["Expect: 100-continue"], ["Expect: something"]])
        return self._head(*self._length(body), *expect) + body

    def _chunks(self, body: bytes) -> bytes:
        pieces = [body[at : at + 40] for at in range(0, len(body), 40)]
        extension = self._random.choice(
            ["", "", "", ";a=b", ";a=b", ';a="b\\"c"', "; a", " ", ";" + "x" * 5_000, ";\r\n", "\x00"]
        )
        size: Callable[[int], str] = self._random.choice(
            [*[lambda n: f"{n:x}"] * 3, lambda n: f"{n:X}", lambda n: f"{n:020x}", lambda n: f"0x{n:x}"]
        )
        end = self._random.choice(["\r\n"] * 6 + ["\n", "\r"])
        data = b"".join(
            f"{size(len(piece))}{extension}{end}".encode("latin-1") + piece + end.encode() for piece in pieces
        )
        if self._random.random() < 0.1:
            data += f"{'F' * 17}{end}".encode()
        trailers = self._random.sample(_TRAILERS, self._random.choice([0, 0, 1, 3]))
        return data + "".join(f"{line}{end}" for line in ("0", *trailers, "")).encode()

    def _chunked(self, mark: str) -> bytes:
        return self._head(*self._coding()) + self._chunks(self._body(mark))

    def _coding(self) -> list[str]:
        return _CODINGS[0] if self._random.random() < 0.4 else self._random.choice(_CODINGS)

    def _both(self, mark: str) -> bytes:
        body = self._body(mark)
        lines: Sequence[str] = [*self._length(body), *self._coding()]
        lines = self._random.sample(lines, len(lines))
        return self._head(*lines) + (self._chunks(body) if self._random.random() < 0.5 else body)

    def _upgrade(self, mark: str) -> bytes:
        body = self._body(mark)
        upgrade = ["Connection: " + self._random.choice(["upgrade", "Upgrade, HTTP2-Settings", "keep-alive, Upgrade"])]
        upgrade += [f"Upgrade: {self._random.choice(_UPGRADES)}", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"]
        if self._random.random() < 0.5:
            return self._head(*upgrade, "Transfer-Encoding: chunked") + self._chunks(body)
        return self._head(*upgrade, *self._length(body)) + body

    def _older(self, mark: str) -> bytes:
        body = self._body(mark)
        keep = self._random.choice([[], ["Connection: keep-alive"]])
        coding = self._random.choice([[], ["Transfer-Encoding: chunked"]])
        lines = [*keep, *coding, *self._length(body)]
        data = self._chunks(body) if coding else body
        return self._head(*lines, version=self._random.choice(["HTTP/1.0", "HTTP/0.9", "HTTP/1.2", "HTTP/2.0"])) + data
