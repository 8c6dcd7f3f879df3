"""Draws request.svg, the picture of the README, from two recordings of the shop's home page:

    faultloom record -n 20 --json > good.json
    faultloom record -f 'currency unavailable after GetCurrencies' --json > bad.json
    python3 docs/pictures/request.py good.json bad.json > docs/pictures/request.svg

Bars show the times in the recordings. Calls that were not sent are drawn as outlines.
"""

import json
import sys
from html import escape

WIDTH, ROW, LEFT, BARS, RIGHT = 860, 24, 28, 300, 690
SERVICE_X = 196

STYLE = """
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2937 }
  .head { font-weight: 600; font-size: 14px }
  .dim { fill: #6b7280 }
  .panel { fill: #ffffff; stroke: #d1d5db }
  .line { stroke: #9ca3af; fill: none }
  .bar { fill: #4b7bb5 }
  .entry { fill: #a9bfd9 }
  .bad { fill: #c2410c }
  .badtext { fill: #c2410c; font-weight: 600 }
  .oktext { fill: #15803d; font-weight: 600 }
  .ghost { fill: none; stroke: #9ca3af; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } .dim { fill: #9ca3af } .panel { fill: #111827; stroke: #374151 } .line { stroke: #6b7280 }
    .bar { fill: #6ea8e6 } .entry { fill: #35506f } .bad { fill: #fb7a3c } .badtext { fill: #fb923c } .oktext { fill: #4ade80 }
    .ghost { stroke: #6b7280 }
  }
"""


def groups(calls):
    """Adjacent calls with equal name and outcome, grouped as in the terminal."""
    out = []
    for call in calls:
        key = (call["callee"], call["name"], call["outcome"], call.get("fault"))
        if out and out[-1][0] == key:
            out[-1][1].append(call)
        else:
            out.append((key, [call]))
    return [group for _, group in out]


def short(call):
    return call["name"].rsplit("/", 1)[-1]


class Picture:
    def __init__(self, scale_us):
        self.parts, self.scale = [], (RIGHT - BARS) / scale_us

    def text(self, x, y, text, css="", anchor="start"):
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{css}" text-anchor="{anchor}">{escape(text)}</text>')

    def bar(self, y, begin, end, css):
        x, width = BARS + begin * self.scale, max((end - begin) * self.scale - 1, 2)
        self.parts.append(f'<rect x="{x:.1f}" y="{y - 11:.0f}" width="{width:.1f}" height="13" rx="2" class="{css}"/>')

    def request(self, top, title, entry, missing):
        scope = entry["scope"]
        status = scope["status"]
        y = top
        self.text(LEFT, y, title, "head")
        y += ROW + 4
        self.text(LEFT, y, entry["name"])
        self.text(SERVICE_X, y, entry["callee"], "dim")
        self.bar(y, 0, scope["answered_us"], "entry")
        self.text(RIGHT + 14, y, f"{status}" + (" to the user" if status >= 500 else ""), "badtext" if status >= 500 else "oktext")
        rows = groups(scope["calls"])
        first = y + 6
        for group in rows:
            y += ROW
            call, times = group[0], f" ×{len(group)}" if len(group) > 1 else ""
            self.branch(y)
            self.text(LEFT + 28, y, short(call) + times)
            self.text(SERVICE_X, y, call["callee"], "dim")
            faulted = call.get("fault") is not None
            for one in group:
                end = max(one["ended_us"], one["sent_us"] + (12 if faulted else 0))
                self.bar(y, one["sent_us"], end, "bad" if faulted else "bar")
            if faulted:
                self.text(RIGHT + 14, y, "⚡ unavailable", "badtext")
            else:
                self.text(RIGHT + 14, y, "ok", "dim")
        for group in missing:
            y += ROW
            self.branch(y)
            times = f" ×{len(group)}" if len(group) > 1 else ""
            self.text(LEFT + 28, y, short(group[0]) + times, "dim")
            self.text(SERVICE_X, y, group[0]["callee"], "dim")
            for one in group:
                x, width = BARS + one["sent_us"] * self.scale, (one["ended_us"] - one["sent_us"]) * self.scale
                self.parts.append(f'<rect x="{x:.1f}" y="{y - 10:.0f}" width="{max(width - 2, 2):.1f}" height="11" rx="2" class="ghost"/>')
            self.text(RIGHT + 14, y, "not sent", "dim")
        self.parts.append(f'<path d="M{LEFT + 8} {first} V{y - 4}" class="line"/>')
        return y

    def branch(self, y):
        self.parts.append(f'<path d="M{LEFT + 8} {y - 4} H{LEFT + 20}" class="line"/>')


def main():
    good, bad = (json.load(open(name)) for name in sys.argv[1:3])
    good_entry, bad_entry = good["trace"]["entry"], bad["trace"]["entry"]
    picture = Picture(max(e["scope"]["answered_us"] for e in (good_entry, bad_entry)))
    y = picture.request(40, "One request with all its calls", good_entry, [])
    y += 22
    picture.parts.append(f'<path d="M{LEFT} {y - 6} H{WIDTH - LEFT}" class="line" opacity="0.5"/>')
    made = len(bad_entry["scope"]["calls"])
    left_out = groups(good_entry["scope"]["calls"][made:])
    y = picture.request(y + 22, "The same request, with currency failing after it answered GetCurrencies", bad_entry, left_out)
    y += ROW + 12
    picture.text(LEFT, y, "AVOIDABLE FAILURE", "badtext")
    picture.text(LEFT + 148, y, "currency fails after GetCurrencies succeeded: time of check to time of use")
    height = y + 24
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img">')
    print("<title>A recorded request as a tree with its times, and the same request with the fault that breaks it</title>")
    print(f"<style>{STYLE}</style>")
    print(f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="10" class="panel"/>')
    print("\n".join(picture.parts))
    print("</svg>")


if __name__ == "__main__":
    main()
