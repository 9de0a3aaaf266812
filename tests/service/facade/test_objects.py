"""Uploads, downloads and verifications on the actions' URLs."""

from tests.service.facade.conftest import Place
from tests.support.http import content


async def test_an_object_goes_up_and_comes_down(place: Place) -> None:
    """What was uploaded is downloaded byte for byte (protocol: "Basic transfer")."""
    data = content("object", 3_000_000)
    async with place.client() as alice:
        r = await alice.upload(data)
        assert r.status_code == 200, r.text
        assert r.content == b""
        from tests.support.http import oid_of

        d = await alice.download(oid_of(data), len(data))
        assert d.content == data
        print(d.headers)
        b = await alice.batch("download", (oid_of(data), len(data)))
        print(b.text, b.headers)
        l = await alice.lock("a/b.txt")
        print(l.status_code, l.text)
        l = await alice.lock("a/b.txt")
        print(l.status_code, l.text)
        print((await alice.locks()).text)
