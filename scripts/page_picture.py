"""page_picture.py PROGRAM OUT.png: the picture of the live page in the README: T5 11B on v4-512, pinned, with 8 microbatches in place
of 4. Needs Chromium."""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
from browser import Browser, find_chromium  # noqa: E402
from live_browser import T5, Served, visit, wait_settled  # noqa: E402

WIDTH, HEIGHT = 1180, 1080
chromium = find_chromium()
if not chromium:
    sys.exit("page_picture: there is no Chromium here (apt-get install chromium)")
served, browser = Served(sys.argv[1]), Browser(chromium)
try:
    browser.show(WIDTH, HEIGHT, False)
    visit(browser, served.address + T5)
    browser.evaluate("[...document.querySelectorAll('header button')].find((b) => b.textContent === 'pin').click()")
    browser.evaluate("delete document.documentElement.dataset.settledMs; "
                     "document.querySelector('.what[data-key=num-microbatches][data-value=\"8\"]').click()")
    wait_settled(browser)
    shot = browser.ask("Page.captureScreenshot", format="png", clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1})
    with open(sys.argv[2], "wb") as file:
        file.write(base64.b64decode(shot["data"]))
finally:
    browser.close()
    served.close()
