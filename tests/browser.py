#!/usr/bin/env python3
"""Opens HTML pages in headless Chromium, as people would, and says what is wrong with them.

    browser.py PAGE.html ... [--pictures FOLDER] [--quick]

Each page is opened at 390, 1280 and 2560 px, light and dark, with and without JavaScript. It fails where the console
reports an error, where anything outside the page is asked for, where the page is wider than the window, where words
cover words, where their contrast is below 4.5, where something that reacts cannot be reached with the keyboard, and
where the dots of a search keep a reader waiting.
With --quick three of these windows have to do. Prints a line a finding; exit 1 if there was one, 77 if there is no Chromium. Standard library alone.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

SIZES = [(390, 844), (1280, 900), (2560, 1440)]
QUICK = [(390, False, True), (1280, True, True), (390, False, False)]  # width, dark, with JavaScript

# What is measured inside the page. Text counts where it is drawn: the boxes of its lines.
MEASURE = r"""
(() => {
  const found = [];
  const say = (what) => { if (found.length < 12) found.push(what); };
  if (document.documentElement.scrollWidth > innerWidth + 1)
    say(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    probe.clearRect(0, 0, 1, 1); probe.fillStyle = "#000"; probe.fillStyle = text; probe.fillRect(0, 0, 1, 1);
    const d = probe.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const paper = rgba(getComputedStyle(document.documentElement).backgroundColor);
  const visible = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true, contentVisibilityAuto: true });
  // What is painted below a point of an element, from the marks of its SVG or its ancestors' backgrounds.
  const below = (e, x, y) => {
    let colour = paper;
    const svg = e.closest("svg");
    for (let p = svg || e; p; p = p.parentElement) {
      const c = rgba(getComputedStyle(p).backgroundColor);
      if (c[3] > 0.5) { colour = c; break; }
    }
    if (!svg) return colour;
    for (const mark of svg.querySelectorAll("rect,circle,polygon,path")) {
      if (mark.closest("g.places") || mark.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_PRECEDING) continue;
      const style = getComputedStyle(mark);
      if (style.fill === "none") continue;
      const point = svg.createSVGPoint(); point.x = x; point.y = y;
      const inside = point.matrixTransform(mark.getScreenCTM().inverse());
      if (mark.isPointInFill(inside)) colour = rgba(style.fill);
    }
    return colour;
  };
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.nodeValue.trim() || e.closest("script,style,title,desc,option") || !visible(e)) continue;
    const range = document.createRange(); range.selectNodeContents(node);
    const svgText = e.closest("svg text");
    for (const r of svgText ? [svgText.getBoundingClientRect()] : range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      const scroller = e.closest(".table,.scrolls,pre,fieldset");
      if (scroller) {
        const s = scroller.getBoundingClientRect();
        if (r.right > s.right + 1 || r.bottom > s.bottom + 1 || r.left < s.left - 1 || r.top < s.top - 1) continue;
      } else if (r.left < -1 || r.right > innerWidth + 1) say(`leaves the page: "${node.nodeValue.trim().slice(0, 60)}"`);
      const shrink = svgText ? 0.18 * r.height : 0.1 * r.height; // a line's box is higher than its letters
      boxes.push({ e, text: node.nodeValue.trim().slice(0, 60), l: r.left, r: r.right, t: r.top + shrink, b: r.bottom - shrink });
      const style = getComputedStyle(e), words = rgba(svgText ? style.fill : style.color);
      const c = contrast(words, below(e, (r.left + r.right) / 2, (r.top + r.bottom) / 2));
      if (c < 4.5) say(`contrast ${c.toFixed(2)}: "${node.nodeValue.trim().slice(0, 60)}"`);
    }
  }
  boxes.sort((a, b) => a.t - b.t);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j].t < boxes[i].b - 0.5; j++) {
      const a = boxes[i], b = boxes[j];
      if (a.e === b.e || a.l > b.r - 0.5 || b.l > a.r - 0.5) continue;
      say(`"${a.text}" and "${b.text}" cover each other`);
    }
  const small = [...document.querySelectorAll("figure svg text")].filter(visible)
    .map((t) => t.getBoundingClientRect().height).filter((h) => h > 0);
  if (small.length && Math.min(...small) < 8) say(`words ${Math.min(...small).toFixed(1)} px high`);
  return { found, words: boxes.length };
})()
"""

REACTS = r"""
(() => {
  const all = [...document.querySelectorAll("a[href],button,input,select,summary,[tabindex='0']")];
  // Arrows move among radio buttons and among tabs.
  const wanted = all.filter((e) => e.checkVisibility() && !e.disabled && !(e.matches("[role=radio],[role=tab]") && e.tabIndex < 0));
  window.wanted = new Set(wanted);
  return wanted.length;
})()
"""

# A search's page with every plan as a dot: how long it takes to filter them and to point at one, the median of twenty.
FLUID = r"""
(() => {
  const canvas = document.querySelector(".explore canvas");
  if (!canvas) return null;
  const plans = JSON.parse(document.getElementById("looked").textContent).tokens_per_s.length;
  const boxes = [...document.querySelectorAll(".filters input")], area = canvas.getBoundingClientRect();
  const median = (act) => {
    const times = [];
    for (let i = 0; i < 20; i++) { const begin = performance.now(); act(i); times.push(performance.now() - begin); }
    return times.sort((a, b) => a - b)[10];
  };
  const at = (i) => ({ clientX: area.left + 60 + i * (area.width - 80) / 20, clientY: area.top + area.height / 2 });
  const filter_ms = median((i) => boxes[Math.floor(i / 2) % boxes.length].click()); /* each off, and on again */
  const point_ms = median((i) => canvas.dispatchEvent(new PointerEvent("pointermove", at(i))));
  canvas.dispatchEvent(new PointerEvent("pointerleave"));
  return { plans, filter_ms, point_ms };
})()
"""
SLOWEST_FILTER_MS, SLOWEST_POINT_MS = 100, 16  # what feels immediate, and a frame


class Browser:
    """Chromium at the other end of two pipes, in the DevTools protocol."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp()
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()

        def set_pipes():
            # 3 is where the browser reads, 4 where it writes.
            read, write = os.dup(to_read), os.dup(back_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-extensions", "--no-zygote", "--renderer-process-limit=1", "--disable-dev-shm-usage", "--user-data-dir=" + self.folder, "about:blank"],
            preexec_fn=set_pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(back_write)
        self.rest, self.next_id, self.events, self.session = b"", 1, [], None
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def receive(self):
        while b"\0" not in self.rest:
            chunk = os.read(self.back, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium went away")
            self.rest += chunk
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **parameters):
        number = self.next_id
        self.next_id += 1
        question = {"id": number, "method": method, "params": parameters}
        if self.session:
            question["sessionId"] = self.session
        os.write(self.to, json.dumps(question).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait(self, method):
        while True:
            for i, event in enumerate(self.events):
                if event.get("method") == method:
                    del self.events[i]
                    return
            self.events.append(self.receive())

    def evaluate(self, text):
        answer = self.ask("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "a script failed"))
        return answer["result"].get("value")

    def show(self, width, height, dark):
        """The window, as of now; an open page follows."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path, width, height, dark, scripts):
        self.events.clear()
        self.show(width, height, dark)
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("Page.loadEventFired")

    def complaints(self, path):
        """Console errors, and requests for anything but the page itself."""
        own, found = "file://" + os.path.abspath(path), []
        self.evaluate("1")
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append("console: " + what["exceptionDetails"].get("exception", {}).get("description", what["exceptionDetails"]["text"]))
            if method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append("console: " + what["entry"]["text"])
            if method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append("console: " + str(what["args"]))
            if method == "Network.requestWillBeSent":
                url = what["request"]["url"]
                if url != own and not url.startswith("data:"):
                    found.append("asks for " + url)
        return found

    def keyboard(self):
        """What reacts, and is never reached by the Tab key."""
        count = self.evaluate(REACTS)
        for _ in range(min(count, 400) + 5):
            for kind in ("keyDown", "keyUp"):
                self.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
            self.evaluate("window.wanted.delete(document.activeElement)")
        left = self.evaluate("[...window.wanted].map((e) => e.outerHTML.slice(0, 80))")
        return [f"the keyboard does not reach {e}" for e in left] if count <= 400 else []

    def fluid(self):
        """What a reader would wait for among many plans."""
        for _ in range(4):  # others may have had the processors
            took = self.evaluate(FLUID)
            if not took:
                return []
            slow = took["filter_ms"] > SLOWEST_FILTER_MS or took["point_ms"] > SLOWEST_POINT_MS
            if not slow:
                break
        words = f"{took['plans']} plans: filtering takes {took['filter_ms']:.1f} ms, pointing {took['point_ms']:.1f} ms"
        if not slow and took["plans"] >= 10000:
            print(words)
        return [words] if slow else []

    def picture(self, path):
        self.evaluate("document.activeElement.blur(); for (const e of document.querySelectorAll('*')) e.scrollLeft = 0")
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.ask("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


def look_at(browser, path, pictures, quick):
    found = []
    for scripts in (True, False):
        for width, height in SIZES:
            for dark in (False, True):
                if quick and (width, dark, scripts) not in QUICK:
                    continue
                case = f"{os.path.basename(path)} at {width} px, {'dark' if dark else 'light'}, {'with' if scripts else 'without'} JavaScript"
                first = width == SIZES[0][0] and not dark
                if first:
                    browser.open(path, width, height, dark, scripts)
                browser.show(width, height, dark)
                said = browser.complaints(path)
                answer = browser.evaluate(MEASURE)
                said += answer["found"]
                if answer["words"] < (20 if scripts else 3):
                    said.append(f"only {answer['words']} pieces of text")
                if scripts and first:
                    said += browser.keyboard() + browser.fluid()
                found += [f"{case}: {what}" for what in said]
                if pictures and scripts:
                    name = os.path.splitext(os.path.basename(path))[0]
                    browser.picture(os.path.join(pictures, f"{name}-{width}-{'dark' if dark else 'light'}.png"))
    return found


def main():
    arguments = [a for a in sys.argv[1:] if a != "--quick"]
    pictures = None
    if "--pictures" in arguments:
        at = arguments.index("--pictures")
        pictures = arguments[at + 1]
        del arguments[at:at + 2]
        os.makedirs(pictures, exist_ok=True)
    program = find_chromium()
    if not program:
        print("there is no Chromium here: pages were not looked at (apt-get install chromium)")
        return 77
    browser = Browser(program)
    try:
        found = [line for path in arguments for line in look_at(browser, path, pictures, "--quick" in sys.argv)]
    finally:
        browser.close()
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
