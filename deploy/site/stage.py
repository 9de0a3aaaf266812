"""The pages of docs/ as the site has them: `python deploy/site/stage.py FOLDER`, then `zensical build` in that folder.

A link that leaves docs/ becomes the name of a file, because the site has no public repository beside it; the diagram of
a page becomes the picture that was made of it, because a script of another host would draw it otherwise.
"""

import hashlib
import posixpath
import re
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
# Pages of the repository that the site has too.
ADDED = {"CHANGELOG.md": "changelog.md"}
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCES = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


def diagrams(text: str) -> list[str]:
    """Return the diagrams of a page."""
    return _DIAGRAM.findall(text)


def picture_of(diagram: str) -> str:
    """Return the name of the picture that was made of a diagram: its text is part of it."""
    return f"diagram-{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"


def staged(text: str, page: str) -> str:
    """Return the text of a page, whose path in the repository is `page`, as the site has it."""
    parts = _FENCES.split(text)
    for number, part in enumerate(parts):
        if drawn := diagrams(part):
            up = "../" * (page.count("/") - 1)
            parts[number] = f"![Diagram]({up}pictures/{picture_of(drawn[0])})"
        elif not part.startswith("```"):
            parts[number] = _LINK.sub(lambda link: _link(link, page), part)
    return "".join(parts)


def _link(link: re.Match[str], page: str) -> str:
    text, target, anchor = link.groups(default="")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    here = posixpath.dirname(ADDED.get(page, page.removeprefix("docs/")))
    if path in ADDED:
        return f"[{text}]({posixpath.relpath(ADDED[path], here or '.')}{anchor})"
    if path.startswith("docs/"):
        if (ROOT / path).is_dir():
            path = f"{path}/README.md"
        return f"[{text}]({posixpath.relpath(path.removeprefix('docs/'), here or '.')}{anchor})"
    name = f"`{path}`"
    return name if text.strip("`") == path else f"{text} ({name})"


def pages_of(folder: str) -> list[str]:
    """Return the pages of a folder of docs/, its README first."""
    found = sorted(path.name for path in (DOCS / folder).glob("*.md"))
    return [f"{folder}{name}" for name in sorted(found, key=lambda name: (name not in ("README.md", "index.md"), name))]


def navigation(entries: list[object]) -> list[object]:
    """Return `nav` with the pages of each folder in it; a folder without pages is left out."""
    done: list[object] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, value),) = entry.items()
            if isinstance(value, list):
                done.append({title: navigation(value)})
            elif value.endswith("/"):
                done += [{title: pages}] if (pages := pages_of(value)) else []
            else:
                done.append(entry)
    return done


def stage(folder: Path) -> None:
    """Write the site's pages and its configuration into a folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder / "docs")
    for path in (folder / "docs").rglob("*.md"):
        path.write_text(staged(path.read_text(), f"docs/{path.relative_to(folder / 'docs')}"))
    for name, added in ADDED.items():
        (folder / "docs" / added).write_text(staged((ROOT / name).read_text(), name))
    head, _, nav = CONFIGURATION.read_text().partition("nav:\n")
    completed = yaml.safe_dump({"nav": navigation(yaml.safe_load("nav:\n" + nav)["nav"])}, sort_keys=False)
    (folder / "mkdocs.yml").write_text(head + completed)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
