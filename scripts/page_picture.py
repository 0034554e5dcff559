"""page_picture.py PROGRAM OUT.png: the picture of the live page in the README, as an animated PNG whose first frame is what stands
where nothing moves: T5 11B on v4-512, other microbatches, a submesh that does not fit and its remedy, the machine, a search. Needs
Chromium."""
import base64
import os
import struct
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
from browser import Browser, find_chromium  # noqa: E402
from live_browser import T5, Served, visit  # noqa: E402

WIDTH, HEIGHT, MOST_BYTES = 1000, 660, 1_000_000
# What is done before each frame, and how long the frame stands, in ms.
FRAMES = [
    ("[...document.querySelectorAll('header button')].find((b) => b.textContent === 'pin').click()", 1800),
    ("document.querySelector('.what[data-key=num-microbatches][data-value=\"2\"]').click()", 2200),
    ("document.querySelector('.what[data-key=model-parallel-submesh][data-value=\"2,2,2,1\"]').click()", 2200),
    ("document.querySelector('.remedies button').click()", 2200),
    ("document.querySelector('#tab-machine').click(); document.querySelector('.tabs').scrollIntoView()", 2200),
    ("document.querySelector('#tab-search').click(); [...document.querySelectorAll('#view button')].find((b) => b.textContent === 'search').click()", 2600),
]


def chunks(png):
    at = 8
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at:at + 8])
        yield name, png[at + 8:at + 8 + length]
        at += 12 + length


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def animated(frames):
    """One PNG of (PNG, milliseconds), all of one size (https://www.w3.org/TR/png-3/#apng-frame-based-animation)."""
    header = next(data for name, data in chunks(frames[0][0]) if name == b"IHDR")
    out, number = [chunk(b"IHDR", header), chunk(b"acTL", struct.pack(">II", len(frames), 0))], 0
    for i, (png, stands_ms) in enumerate(frames):
        out.append(chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, *struct.unpack(">II", header[:8]), 0, 0, stands_ms, 1000, 0, 0)))
        number += 1
        for data in (data for name, data in chunks(png) if name == b"IDAT"):
            out.append(chunk(b"fdAT", struct.pack(">I", number) + data) if i else chunk(b"IDAT", data))
            number += bool(i)
    return b"\x89PNG\r\n\x1a\n" + b"".join(out) + chunk(b"IEND", b"")


def shot(browser):
    """Its pixels packed as well as zlib can."""
    png = base64.b64decode(browser.ask("Page.captureScreenshot", format="png")["data"])
    pixels = zlib.decompress(b"".join(data for name, data in chunks(png) if name == b"IDAT"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, data) for name, data in chunks(png) if name == b"IHDR") + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b"")


chromium = find_chromium()
if not chromium:
    sys.exit("page_picture: there is no Chromium here (apt-get install chromium)")
served, browser, taken = Served(sys.argv[1]), Browser(chromium), []
try:
    browser.show(WIDTH, HEIGHT, False)
    visit(browser, served.address + T5)
    for act, stands_ms in FRAMES:
        browser.evaluate(f"delete document.documentElement.dataset.settledMs; {act}; document.activeElement.blur()")
        time.sleep(2.5)
        taken.append((shot(browser), stands_ms))
finally:
    browser.close()
    served.close()
whole = animated(taken)
if len(whole) > MOST_BYTES:
    sys.exit(f"page_picture: {len(whole)} bytes are more than {MOST_BYTES}")
with open(sys.argv[2], "wb") as file:
    file.write(whole)
