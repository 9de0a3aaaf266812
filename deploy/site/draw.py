"""The pictures of the diagrams in docs/, drawn anew: `python deploy/site/draw.py MERMAID`.

MERMAID is `mermaid.min.js` of the npm package of that name, at version 11. It needs Chromium.
"""

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from stage import DOCS, diagrams, picture_of

_PAGE = """<pre class="mermaid">{diagram}</pre><script src="{script}"></script><script>
mermaid.initialize({{startOnLoad: false, theme: "neutral", htmlLabels: false, fontFamily: "sans-serif",
  flowchart: {{htmlLabels: false, wrappingWidth: 500}}, deterministicIds: true}});
mermaid.run();</script>"""
_CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]


def draw(diagram: str, script: Path) -> str:
    """Return a diagram as SVG, on a ground of its own: pages are light or dark."""
    with tempfile.NamedTemporaryFile("w", suffix=".html") as page:
        page.write(_PAGE.format(diagram=html.escape(diagram), script=script.resolve().as_uri()))
        page.flush()
        command = [*_CHROMIUM, "--virtual-time-budget=20000", f"file://{page.name}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)  # noqa: S603 - Chromium
    found = re.search(r"<svg.*</svg>", done.stdout, re.DOTALL)
    if not found:
        sys.exit("mermaid has drawn nothing")
    return found[0].replace("<br>", "<br/>").replace('style="', 'style="background: white; ', 1) + "\n"


if __name__ == "__main__":
    for old in (DOCS / "pictures").glob("diagram-*.svg"):
        old.unlink()
    for path in sorted(DOCS.rglob("*.md")):
        for diagram in diagrams(path.read_text()):
            (DOCS / "pictures" / picture_of(diagram)).write_text(draw(diagram, Path(sys.argv[1])))
