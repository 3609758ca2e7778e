"""What a page of one file is made of."""

import base64
import hashlib
import html.parser
import re

# What a text must not do to a page.
NASTY = """</script><script>alert("it's")</script> <!-- $data & 'a' > "b" \u2028"""


class Elements(html.parser.HTMLParser):
    """The elements of a page, and what its scripts and styles hold, by id or type.

    Args:
      page: the HTML.
    """

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self._script = [], {}, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in ("script", "style"):
            kind = "program" if tag == "script" else "style"
            self._script = attributes.get("id", attributes.get("type", kind))
            self.scripts[self._script] = ""

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._script = None

    def handle_data(self, data):
        if self._script:
            self.scripts[self._script] += data


def check_nothing_is_from_outside(page, asks=""):
    """Checks that a page names no address, and that its policy lets its own parts run only.

    Args:
      page: the HTML.
      asks: the rule of the policy for requests; none: it asks nobody.
    """
    assert not re.findall(r"https?:|//[a-z]+\.|@import|url\(", page)
    elements = Elements(page)
    for tag, attributes in elements.tags:
        assert tag not in ("iframe", "object", "embed", "img", "audio", "video")
        assert "src" not in attributes and "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "data:,") == "data:,"
    (policy,) = [a["content"] for _, a in elements.tags if "http-equiv" in a]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digests = {
        name: base64.b64encode(hashlib.sha256(elements.scripts[name].encode()).digest()).decode()
        for name in ("program", "style")
    }
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digests['program']}'",
        "style-src": f"'sha256-{digests['style']}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": asks} if asks else {}),
    }
