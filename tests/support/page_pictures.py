"""The pictures of docs/pages.md, taken of the pages of a running stack: `python -m tests.support.page_pictures`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.chromium import WIDE, running_chromium, window
from tests.support.http import Client, content, oid_of
from tests.support.stack import Stack, running_stack

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MAX_BYTES = 150_000
REPOSITORY = "studio/harbour"
PAGES = {
    "pages-sign-in": "/-/sign-in",
    "pages-repositories": "/",
    "pages-repository": f"/{REPOSITORY}",
    "pages-locks": f"/{REPOSITORY}/locks",
    "pages-history": f"/-/history/{REPOSITORY}",
}
"""The name of each picture, and the page of which it is one."""

_SITE = {"TOWPATH_PUBLIC_URL": "https://lfs.studio.example"}
_USERS = {"mira": "admin", "jonas": "write", "ines": "write", "tomasz": "write"}
_OTHERS = {"studio/lighthouse": "write", "studio/library": "read", "tools/texture-bake": "read"}
_LOCKS = (
    ("ines", "Content/Characters/Keeper/Keeper_Body.uasset", "new proportions"),
    ("tomasz", "Content/Audio/Foghorn.wav", None),
    ("jonas", "Content/Maps/Harbour.umap", "lighting pass"),
    ("jonas", "Content/Maps/Harbour_Night.umap", "lighting pass"),
    ("mira", "Content/Props/Crane/Crane.fbx", None),
    ("ines", "Source/Concept/Quay_v3.psd", "for Thursday's review"),
)
_RELEASED = (
    ("tomasz", "Content/Audio/Gulls.wav", None),
    ("ines", "Content/Props/Boat/Boat.fbx", None),
    ("jonas", "Content/Maps/Quay.umap", "on leave until Monday; the milestone needs this map"),
)
_OBJECTS = {f"texture {number}": 200_000 + 70_000 * number for number in range(12)}


async def _furnish(stack: Stack) -> str:
    """Fill the site with people, repositories, objects and locks, and return the token of the person who looks."""
    for name in (REPOSITORY, *_OTHERS):
        stack.towpath("repo", "add", name)
    clients = {}
    for user, role in _USERS.items():
        stack.towpath("user", "add", user)
        stack.towpath("grant", user, REPOSITORY, "--role", role)
        secret = stack.towpath("token", "add", user, "--name", "workstation")["secret"]
        clients[user] = Client(f"{stack.origin}/{REPOSITORY}", user, secret)
    for name, role in _OTHERS.items():
        stack.towpath("grant", "mira", name, "--role", role)
    token = str(stack.towpath("token", "add", "mira", "--name", "browser")["secret"])
    try:
        for name, size in _OBJECTS.items():
            data = content(name, size)
            action = await clients["ines"].action("upload", oid_of(data), size)
            assert action is not None
            inner = action.href.replace(_SITE["TOWPATH_PUBLIC_URL"], stack.origin)
            (await clients["ines"].http.put(inner, content=data, headers=action.header)).raise_for_status()
        for user, path, reason in _RELEASED:
            lock = await _lock(clients[user], path, None)
            if reason is None:
                (await clients[user].unlock(lock)).raise_for_status()
            else:
                stolen = await clients["mira"].post(f"locks/{lock}/steal", reason=reason)
                stolen.raise_for_status()
        for user, path, note in _LOCKS:
            await _lock(clients[user], path, note)
    finally:
        for client in clients.values():
            await client.http.aclose()
    return token


async def _lock(client: Client, path: str, note: str | None) -> str:
    answer = await client.post("locks", path=path, **({} if note is None else {"note": note}))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["lock"]["id"])


async def take_pictures(folder: Path) -> None:
    """Run a stack with the work of a studio, and write a picture of each page."""
    with running_stack(environment=_SITE) as stack:
        token = await _furnish(stack)
        async with running_chromium() as browser, window(browser, stack.origin, size=WIDE) as opened:
            for name, path in PAGES.items():
                if path != PAGES["pages-sign-in"] and not await opened.page.context.cookies():
                    await opened.sign_in(token)
                assert await opened.open(path) == 200, path
                await opened.page.evaluate("document.activeElement.blur()")
                await opened.page.screenshot(path=folder / f"{name}.png", animations="disabled")


if __name__ == "__main__":
    asyncio.run(take_pictures(PICTURES))
